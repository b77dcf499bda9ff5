package eventstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	insertEventsSQL = `insert into ledger_events (shard, position, id, stream, version, type, schema, organisation_id, workspace_id,
			occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed, tag)
		select $1, position, id, stream, version, type, schema, organisation_id, workspace_id,
			occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data::json, subject, sealed, tag
		from unnest($2::bigint[], $3::uuid[], $4::text[], $5::int[], $6::text[], $7::smallint[], $8::uuid[], $9::uuid[],
			$10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::uuid[], $15::uuid[], $16::text[], $17::text[], $18::bytea[], $19::bytea[])
			u (position, id, stream, version, type, schema, organisation_id, workspace_id,
			occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed, tag)`
	insertKeysSQL  = `insert into ledger_keys (subject, wrapped) select * from unnest($1::text[], $2::bytea[])`
	destroyKeysSQL = `insert into ledger_keys (subject, destroyed_at) select s, $2 from unnest($1::text[]) s
		on conflict (subject) do update set wrapped = null, destroyed_at = excluded.destroyed_at`
	emptyRecordsSQL  = `update ledger_idempotency_records set body = null where subject = any($1)`
	takeClaimsSQL    = `insert into ledger_claims (scope, key, owner) select * from unnest($1::text[], $2::text[], $3::text[])`
	releaseClaimsSQL = `delete from ledger_claims c using unnest($1::text[], $2::text[]) u (scope, key)
		where c.scope = u.scope and c.key = u.key`
	addQuotasSQL = `insert into ledger_quotas as q (key, bucket, used) select * from unnest($1::text[], $2::timestamptz[], $3::bigint[])
		on conflict (key, bucket) do update set used = q.used + excluded.used`
	insertRecordsSQL = `insert into ledger_idempotency_records (workspace_id, key, actor, fingerprint, ref, status, body, subject, shard, position, created_at)
		select workspace_id, key, actor, fingerprint, ref, status, body, nullif(subject, ''), $10, position, $11
		from unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::smallint[], $7::bytea[], $8::text[], $9::bigint[])
			u (workspace_id, key, actor, fingerprint, ref, status, body, subject, position)
		on conflict (workspace_id, key) do update set actor = excluded.actor, fingerprint = excluded.fingerprint, ref = excluded.ref, status = excluded.status,
			body = excluded.body, subject = excluded.subject, shard = excluded.shard, position = excluded.position, created_at = excluded.created_at`
	moveHeadSQL = `update ledger_heads set position = $2 where shard = $1`
)

// write writes the accepted appends and commits, in one round trip. first adds the statements that come before the
// inserts and move the head.
func (c *committer) write(ctx context.Context, conn *pgxpool.Conn, s *shardState, accepted []*pendingAppend, first func(*pgx.Batch)) error {
	var b pgx.Batch
	first(&b)
	addEventsTo(&b, c.ledger.keyring, c.shard, accepted)
	addKeysTo(&b, s.now, accepted)
	addClaimsTo(&b, s, accepted)
	if len(s.added) > 0 {
		var keys []string
		var buckets []time.Time
		var added []int64
		for k, n := range s.added {
			keys, buckets, added = append(keys, k.key), append(buckets, k.bucket), append(added, n)
		}
		b.Queue(addQuotasSQL, keys, buckets, added)
	}
	addRecordsTo(&b, c.shard, s, accepted)
	b.Queue("commit")
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	return c.confirm(ctx, conn)
}

// addEventsTo adds the insert of all events.
func addEventsTo(b *pgx.Batch, keyring *Keyring, shard int, accepted []*pendingAppend) {
	n := 0
	for _, p := range accepted {
		n += len(p.rows)
	}
	if n == 0 {
		return
	}
	positions, versions, schemas := make([]int64, 0, n), make([]int32, 0, n), make([]int16, 0, n)
	ids, organisations, correlations := make([]pgtype.UUID, 0, n), make([]pgtype.UUID, 0, n), make([]pgtype.UUID, 0, n)
	workspaces, causations := make([]pgtype.UUID, 0, n), make([]pgtype.UUID, 0, n)
	streams, types, actorTypes, actorIDs := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	requests, data := make([]string, 0, n), make([]string, 0, n)
	times := make([]time.Time, 0, n)
	subjects, sealed, tags := make([]*string, 0, n), make([][]byte, 0, n), make([][]byte, 0, n)
	for _, p := range accepted {
		a := p.append
		for i := range p.rows {
			r := &p.rows[i]
			positions, versions, schemas = append(positions, r.position), append(versions, int32(r.version)), append(schemas, int16(r.schema)) //nolint:gosec // both are small
			ids, organisations, correlations = append(ids, pgUUID(r.id)), append(organisations, pgUUID(a.Organisation)), append(correlations, pgUUID(r.cause.correlation))
			workspaces, causations = append(workspaces, pgUUID(r.workspace)), append(causations, pgUUID(r.cause.causation))
			streams, types = append(streams, r.stream), append(types, r.name)
			actorTypes, actorIDs = append(actorTypes, r.cause.actor.Type), append(actorIDs, r.cause.actor.ID)
			requests, data, times = append(requests, r.cause.requestID), append(data, string(r.data)), append(times, a.At)
			subjects, sealed = append(subjects, r.subject), append(sealed, r.sealed)
			leaf := hashLeaf(placeColumns(shard, r.position, r.version), r.content)
			tags = append(tags, keyring.tag(leaf[:]))
		}
	}
	b.Queue(insertEventsSQL, shard, positions, ids, streams, versions, types, schemas, organisations, workspaces,
		times, actorTypes, actorIDs, requests, causations, correlations, data, subjects, sealed, tags)
}

// pgUUID is an id in pgx's own type, which it encodes without reflection. uuid.Nil becomes null.
func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil} }

func uuids(ids []uuid.UUID) []pgtype.UUID {
	list := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		list[i] = pgUUID(id)
	}
	return list
}

// addKeysTo adds the inserts of new keys, and the destruction of the keys of erased subjects.
func addKeysTo(b *pgx.Batch, now time.Time, accepted []*pendingAppend) {
	var subjects, erased []string
	var wrapped [][]byte
	for _, p := range accepted {
		for _, k := range p.newKeys {
			subjects, wrapped = append(subjects, k.subject), append(wrapped, k.wrapped)
		}
		erased = append(erased, p.append.EraseSubjects...)
	}
	if len(subjects) > 0 {
		b.Queue(insertKeysSQL, subjects, wrapped)
	}
	if len(erased) > 0 {
		b.Queue(destroyKeysSQL, erased, now)
		b.Queue(emptyRecordsSQL, erased)
	}
}

// addClaimsTo adds the changes of claims: the difference between the claims before and after the batch, so that a claim
// may be released and taken again within one batch. The insert fails if another shard has taken the claim since it was
// read.
func addClaimsTo(b *pgx.Batch, s *shardState, accepted []*pendingAppend) {
	var scopes, keys, owners, releasedScopes, releasedKeys []string
	seen := map[claimKey]bool{}
	for _, p := range accepted {
		for _, c := range p.append.Claims {
			k := claimKey{c.Scope, c.Key}
			if seen[k] {
				continue
			}
			seen[k] = true
			before, had := s.storedClaims[k]
			after, has := s.claims[k]
			if had && before != after {
				releasedScopes, releasedKeys = append(releasedScopes, k.scope), append(releasedKeys, k.key)
			}
			if has && before != after {
				scopes, keys, owners = append(scopes, k.scope), append(keys, k.key), append(owners, after)
			}
		}
	}
	if len(releasedScopes) > 0 {
		b.Queue(releaseClaimsSQL, releasedScopes, releasedKeys)
	}
	if len(scopes) > 0 {
		b.Queue(takeClaimsSQL, scopes, keys, owners)
	}
}

// addRecordsTo adds the inserts of idempotency records. A record that has expired is replaced.
func addRecordsTo(b *pgx.Batch, shard int, s *shardState, accepted []*pendingAppend) {
	var workspaces []uuid.UUID
	var keys, actors, refs, subjects []string
	var fingerprints, bodies [][]byte
	var statuses []int16
	var positions []int64
	for _, p := range accepted {
		if p.append.Idempotency == nil {
			continue
		}
		r := s.records[recordKey{p.append.Idempotency.Workspace, p.append.Idempotency.Key}]
		workspaces, keys, refs = append(workspaces, r.Workspace), append(keys, r.Key), append(refs, r.Ref)
		actors = append(actors, r.Actor)
		fingerprints, bodies = append(fingerprints, r.Fingerprint), append(bodies, p.recordBody)
		statuses = append(statuses, int16(r.Status)) //nolint:gosec // an HTTP status
		subjects, positions = append(subjects, r.Subject), append(positions, r.Position)
	}
	if len(keys) > 0 {
		b.Queue(insertRecordsSQL, uuids(workspaces), keys, actors, fingerprints, refs, statuses, bodies, subjects, positions, shard, s.now)
	}
}
