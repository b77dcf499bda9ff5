#!/usr/bin/env python3
"""Checks the answer of GET /v1/compliance/proof. Needs Python 3.8 and nothing else.

    python3 verify_proof.py proof.json [PUBLIC-KEY [FILE-WITH-PUBLISHED-HEADS]]

PUBLIC-KEY is what `ledgerline keys public` printed. Without it, the proof's own key is used, which shows nothing about
who made the proof. With published heads, the proof must agree with one of them.
"""
import base64, hashlib, json, re, sys

def sha(data):
    return hashlib.sha256(data).digest()

def netstrings(fields):  # None is "-:,"
    fields = [f.encode() if isinstance(f, str) else f for f in fields]
    return b"".join(b"-:," if f is None else b"%d:%s," % (len(f), f) for f in fields)

def unbase(texts):
    return [base64.b64decode(t, validate=True) for t in texts]

def pair(left, right):
    return sha(b"\1" + left + right)

# Merkle trees: RFC 9162, sections 2.1.3.2 and 2.1.4.2.
def included(index, size, leaf, path, root):
    if not 0 <= index < size:
        return False
    last, carried = size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if index & 1 or index == last:
            carried = pair(sibling, carried)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            carried = pair(carried, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and carried == root

def extends(size1, size2, path, root1, root2):
    if not 0 < size1 < size2 or not path and size1 & (size1 - 1):
        return size1 == size2 and root1 == root2
    if size1 & (size1 - 1) == 0:
        path = [root1] + path
    index, last = size1 - 1, size2 - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if index & 1 or index == last:
            first, second = pair(sibling, first), pair(sibling, second)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            second = pair(second, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and (first, second) == (root1, root2)

# Ed25519: RFC 8032, section 5.1.7.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P

def times(n, point):
    sum = (0, 1, 1, 0)
    while n:
        sum, point, n = add(sum, point) if n & 1 else sum, add(point, point), n >> 1
    return sum

def point(b):
    y, odd = int.from_bytes(b, "little") & (1 << 255) - 1, b[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or y >= P or not x and odd:
        raise ValueError("not a point")
    x = P - x if x & 1 != odd else x
    return x, y, 1, x * y % P

BASE = point(bytes([0x58]) + b"\x66" * 31)

def signed(public, text, signature):
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % L
    x, y = times(s, BASE), add(point(signature[:32]), times(h, point(public)))
    return s < L and (x[0] * y[2] - y[0] * x[2]) % P == 0 and (x[1] * y[2] - y[1] * x[2]) % P == 0

def heads(text, key, wanted=lambda shard, size: True):
    """Returns (shard, size, root, position) of the wanted heads of a text: signed notes (https://c2sp.org/signed-note)."""
    name, _, blob = key.strip().split("+", 2)
    public, found = base64.b64decode(blob)[1:], []
    keyhash = sha(name.encode() + b"\n\1" + public)[:4]
    for note, signature in re.findall(f"(?m)^({re.escape(name)}/shard/(?:.+\n){{5}})\n— {re.escape(name)} (.+)$", text):
        origin, size, root, position = note.split("\n")[:4]
        h = int(origin.rsplit("/", 1)[1]), int(size), base64.b64decode(root), int(position.split()[1])
        if wanted(h[0], h[1]):
            signature = base64.b64decode(signature)
            if signature[:4] != keyhash or not signed(public, note.encode(), signature[4:]):
                sys.exit("a head has no valid signature of this installation")
            found.append(h)
    return found

def main():
    proof, given, wrong = json.load(open(sys.argv[1], encoding="utf-8")), sys.argv[2:], []
    if given and given[0].strip() != proof["public_key"]:
        sys.exit("the proof is signed with another key")
    [head] = heads(proof["head"], proof["public_key"]) or [(proof["shard"], 0, b"", 0)]
    shard, size, root, end = head
    if shard != proof["shard"] or proof["format"] != "ledgerline proof 2":
        wrong.append("another format or shard")
    if given[1:]:
        x, sizes = proof["extends"] or {"size": 0}, []
        published = heads(open(given[1], encoding="utf-8").read(), given[0], lambda i, n: i == shard and (sizes.append(n) or n in (size, x["size"])))
        compared = [h[2] == root if h[1] == size else extends(h[1], size, unbase(x["path"]), h[2], root) for h in published]
        if not all(compared):
            wrong.append("the proof does not agree with a published head")
        if not compared:
            wrong.append(f"no published head can be compared: fetch the proof with head_size={max([n for n in sizes if n < size] or [0])}")

    blocks = {}
    for b in proof["blocks"]:
        [tree] = unbase([b["root"]])
        hash = sha(b"\0" + netstrings(["ledgerline block 2", str(shard), str(b["number"]), str(b["from_position"]), str(b["to_position"]), tree]))
        if not included(b["number"] - 1, size, hash, unbase(b["path"]), root) or b["to_position"] > end:
            wrong.append(f"block {b['number']}: not in the tree of the head")
        blocks[b["number"]] = (b["from_position"], b["to_position"], tree)

    last, versions, consent, opted_out = 0, {}, {}, False
    for i, e in enumerate(proof["entries"]):
        leaf, (first, to, tree) = e["leaf"], blocks.get(e["block"], (1, 0, b""))
        position, stream, kind = int(leaf[1]), leaf[4], leaf[5]
        hash = sha(b"\0" + netstrings(leaf[:3] + [sha(netstrings(leaf[3:]))]))
        if not included(position - first, to - first + 1, hash, unbase(e["path"]), tree) or len(leaf) != 18 or leaf[0] != str(shard):
            wrong.append(f"event {i}: not in its block in this form")
        if position <= last:
            wrong.append(f"event {i}: its position is not after that of the event before")
        last, versions[stream] = position, versions.get(stream, 0) + 1
        if leaf[2] != str(versions[stream]):
            wrong.append(f"event {i}: an event of {stream} was left out")
        opted_out = {"number.opted_out": True, "number.opted_in": False}.get(kind, opted_out)
        if kind in ("contact.opted_in", "contact.opted_out", "contact.consent_cleared"):
            facts = json.loads(leaf[15])
            if facts["number_hash"] == proof["phone_hash"]:
                consent[position] = (leaf[3], facts["contact_id"], facts["from"], facts["to"], leaf[9][:23], leaf[10], facts.get("source"), facts.get("keyword"))
    if not proof["entries"]:
        wrong.append("there is no event: that the number was never seen cannot be proven")
    if versions != proof["streams"]:
        wrong.append("events at the end of a stream were left out")
    shown = {c["position"]: (c["id"], c["contact_id"], c["from_status"], c["to_status"], c["occurred_at"][:23], c["actor"]["type"], c["source"], c["keyword"]) for c in proof["consent"]}
    if shown != consent or opted_out != proof["opted_out"]:
        wrong.append("what is shown is not what is proven")
    print("\n".join(wrong) or f"proven: {len(shown)} consent events\n{proof['head']}")
    sys.exit(bool(wrong))

main()
