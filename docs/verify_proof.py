#!/usr/bin/env python3
"""Checks the answer of GET /v1/compliance/proof. Needs Python 3 and nothing else.

    python3 verify_proof.py proof.json [HASH-OF-A-BLOCK-KEPT-ELSEWHERE]
"""
import base64, hashlib, json, sys

def netstrings(fields):
    return b"".join(b"%d:%s," % (len(f), f) for f in (f.encode() for f in fields))

def sha(data):
    return hashlib.sha256(data).digest()

proof, expected, wrong = json.load(open(sys.argv[1], encoding="utf-8")), sys.argv[2:3], []
blocks, before = {}, None
for b in proof["blocks"]:
    fields = ["ledgerline block 1", str(proof["shard"]), str(b["number"]), str(b["from_position"]), str(b["to_position"])]
    fields += [base64.b64encode(bytes.fromhex(b[k])).decode() for k in ("root", "previous")]
    if sha(netstrings(fields)).hex() != b["hash"]:
        wrong.append(f"block {b['number']}: wrong hash")
    if before and (b["previous"], b["number"], b["from_position"]) != (before["hash"], before["number"] + 1, before["to_position"] + 1):
        wrong.append(f"block {b['number']}: does not follow the block before")
    blocks[b["number"]] = before = b
if (before["hash"] if before else "") != proof["head"]:
    wrong.append("the head is not the last block")
if expected and expected[0] not in [b["hash"] for b in proof["blocks"]]:
    wrong.append("the expected block is not in the chain")

last, versions, consent, opted_out = 0, {}, {}, False
for i, e in enumerate(proof["entries"]):
    leaf, block = e["leaf"], blocks.get(e["block"], {"root": "", "from_position": 1, "to_position": 0})
    position, stream, kind = int(leaf[1]), leaf[3], leaf[5]
    carried = sha(b"\0" + netstrings(leaf))
    for step in e["path"]:
        beside = bytes.fromhex(step["hash"])
        carried = sha(b"\1" + (beside + carried if step["side"] == "left" else carried + beside))
    if carried.hex() != block["root"] or len(leaf) != 18 or leaf[0] != str(proof["shard"]):
        wrong.append(f"event {i}: not in its block as it stands here")
    if not block["from_position"] <= position <= block["to_position"] or position <= last:
        wrong.append(f"event {i}: out of place")
    last, versions[stream] = position, versions.get(stream, 0) + 1
    if leaf[4] != str(versions[stream]):
        wrong.append(f"event {i}: an event of {stream} was left out")
    opted_out = {"number.opted_out": True, "number.opted_in": False}.get(kind, opted_out)
    if kind in ("contact.opted_in", "contact.opted_out", "contact.consent_cleared"):
        facts = json.loads(leaf[15])
        if facts["number_hash"] == proof["phone_hash"]:
            consent[position] = (leaf[2], facts["contact_id"], facts["from"], facts["to"], leaf[9][:23], leaf[10], facts.get("source"), facts.get("keyword"))
if versions != proof["streams"]:
    wrong.append("events at the end of a stream were left out")
shown = {c["position"]: (c["id"], c["contact_id"], c["from_status"], c["to_status"], c["occurred_at"][:23], c["actor"]["type"], c["source"], c["keyword"]) for c in proof["consent"]}
if shown != consent or opted_out != proof["opted_out"]:
    wrong.append("what is shown is not what is proven")
print("\n".join(wrong) or f"proven: {len(shown)} consent events, head {proof['head']}")
sys.exit(bool(wrong))
