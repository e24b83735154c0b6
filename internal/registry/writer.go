package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
)

// batch is the maximum number of writes in one transaction. This many small writes take less time than an fsync of a
// slow disk, which is about 10 ms.
const batch = 512

// job is one write that waits for the writer.
type job struct {
	ctx  context.Context
	do   func(*sql.Tx) error
	err  error         // result of do; valid after done is closed
	done chan struct{} // closed when the job is on disk, or has failed
}

var errClosed = errors.New("registry is closed")

// write runs do on the writer's goroutine, in a transaction that it shares with other writes, and returns when it is
// committed. Once do has begun, write does not return early if ctx ends, so that the caller learns the result.
func (f *file) write(ctx context.Context, do func(*sql.Tx) error) error {
	j := &job{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case f.queue <- j:
	case <-f.stop:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	<-j.done
	return j.err
}

// run is the writer. While it commits, new writes wait; it then takes all of them into one transaction.
func (f *file) run() {
	defer close(f.done)
	for {
		select {
		case j := <-f.queue:
			f.commit(j)
		case <-f.stop:
			return
		}
	}
}

// commit runs first and all other waiting writes in one transaction.
func (f *file) commit(first *job) {
	tx, err := f.wdb.BeginTx(context.Background(), nil)
	if err != nil {
		first.err = f.writeError(err)
		close(first.done)
		return
	}
	jobs := []*job{first}
	first.run(tx)
	for more := true; more && len(jobs) < batch && !isFull(jobs[len(jobs)-1].err); {
		select {
		case j := <-f.queue:
			jobs = append(jobs, j)
			j.run(tx)
		default:
			more = false
		}
	}
	last := len(jobs) - 1
	if last > 0 && isFull(jobs[last].err) { // SQLite has undone the whole transaction: run the others again
		f.finish(jobs[last:], ignoreDone(tx.Rollback()))
		for _, j := range jobs[:last] {
			f.commitOnly(j)
		}
		return
	}
	err = tx.Commit()
	if err != nil {
		err = f.writeError(errors.Join(err, ignoreDone(tx.Rollback())))
	}
	f.finish(jobs, err)
}

// commitOnly runs a job in a transaction of its own.
func (f *file) commitOnly(j *job) {
	tx, err := f.wdb.BeginTx(context.Background(), nil)
	if err == nil {
		j.run(tx)
		if err = tx.Commit(); err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}
	if err != nil {
		err = f.writeError(err)
	}
	f.finish([]*job{j}, err)
}

// finish passes the result of the transaction to the callers that wait for its jobs.
func (f *file) finish(jobs []*job, err error) {
	for _, j := range jobs {
		switch {
		case j.err == nil:
			j.err = err
		case isFull(j.err): // a large change is written to the disk before the commit
			j.err = f.writeError(j.err)
		}
		close(j.done)
	}
}

func (f *file) writeError(err error) error {
	if isFull(err) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("write %s: %w", f.path, err)
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// run runs the job inside a savepoint, so that a failed job does not undo the others.
func (j *job) run(tx *sql.Tx) {
	if j.err = j.ctx.Err(); j.err != nil {
		return
	}
	if _, j.err = tx.Exec(`SAVEPOINT job`); j.err != nil {
		return
	}
	if j.err = j.call(tx); j.err != nil {
		// ErrDryRun is undone here, too.
		if _, err := tx.Exec(`ROLLBACK TO job; RELEASE job`); err != nil {
			j.err = errors.Join(j.err, err)
		}
		return
	}
	_, j.err = tx.Exec(`RELEASE job`)
}

// call runs the job and turns a panic into an error, because the whole server needs the writer.
func (j *job) call(tx *sql.Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("registry: write panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return j.do(tx)
}
