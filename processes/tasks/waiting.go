package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Waiting describes the unfinished tasks of a process.
type Waiting struct {
	Process   string
	OldestDue *time.Time // by the service's clock; of the tasks whose last run did not fail; nil when there are none
	Retrying  int64      // tasks whose last run failed
}

// waitingSQL steps from one process to the next along the primary key, and reads the ends of the other indexes.
const waitingSQL = `with recursive processes (name) as (
		select min(process) from scheduled_tasks
		union all
		select (select min(process) from scheduled_tasks where process > p.name) from processes p where p.name is not null
	)
	select name,
		(select due_at from scheduled_tasks where process = name and retry_at is null order by due_at limit 1),
		(select count(*) from scheduled_tasks where process = name and retry_at is not null)
	from processes where name is not null`

// ReadWaiting returns the state of all processes that have unfinished tasks.
func ReadWaiting(ctx context.Context, pool *pgxpool.Pool) ([]Waiting, error) {
	rows, err := pool.Query(ctx, waitingSQL)
	if err != nil {
		return nil, fmt.Errorf("tasks: read waiting: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Waiting])
	if err != nil {
		return nil, fmt.Errorf("tasks: read waiting: %w", err)
	}
	return waiting, nil
}
