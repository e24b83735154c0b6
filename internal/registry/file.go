package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// readers is how many reads of one file run at the same time.
const readers = 4

// file is one database with its only writer.
type file struct {
	path  string
	read  *sql.DB
	wdb   *sql.DB
	queue chan *job
	stop  chan struct{} // closed: no more jobs are accepted
	done  chan struct{} // closed: the writer has ended
}

// openFile opens path, brings its schema up to date and starts its writer.
func openFile(ctx context.Context, path string, s schema) (*file, error) {
	f := &file{path: path, queue: make(chan *job), stop: make(chan struct{}), done: make(chan struct{})}
	if err := f.open(ctx, s); err != nil {
		if isFull(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, errors.Join(fileError(path, s, err), f.closeDBs())
	}
	go f.run()
	return f, nil
}

func (f *file) open(ctx context.Context, s schema) error {
	// The file holds digests of sessions: only its owner reads it. SQLite gives -wal and -shm the same mode.
	h, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := h.Close(); err != nil {
		return err
	}
	if f.wdb, err = sql.Open("sqlite", f.dsn(s.sync, "_txlock=immediate")); err != nil {
		return err
	}
	f.wdb.SetMaxOpenConns(1)
	if err := f.migrate(ctx, s); err != nil {
		return err
	}
	if f.read, err = sql.Open("sqlite", f.dsn(s.sync, "_pragma=query_only(1)")); err != nil {
		return err
	}
	f.read.SetMaxOpenConns(readers)
	f.read.SetMaxIdleConns(readers)
	return f.read.PingContext(ctx)
}

// dsn returns the address of the file for the driver. In WAL mode readers and the writer do not block each other.
func (f *file) dsn(sync, more string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: f.path}).EscapedPath()}
	return u.String() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(" + sync +
		")&_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)&" + more
}

var errNewer = errors.New("file is newer than this release")

// migrate updates the schema to the newest version in one transaction, so that a crash leaves the old file.
func (f *file) migrate(ctx context.Context, s schema) error {
	tx, err := f.wdb.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit this does nothing
	var id, version int
	err = errors.Join(tx.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id),
		tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version))
	switch {
	case err != nil:
		return err
	case version > len(s.steps):
		return fmt.Errorf("%w: it has schema %d, this release knows %d", errNewer, version, len(s.steps))
	case version > 0 && id != s.id:
		return fmt.Errorf("not this kind of file: its application id is %#x, not %#x", id, s.id)
	}
	if version == len(s.steps) { // write nothing: the disk may be full
		if s.check {
			err = quickCheck(ctx, tx)
		}
		return err
	}
	for _, step := range s.steps[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("bring schema %d up to date: %w", version, err)
		}
	}
	// PRAGMA takes no parameters; both values are constants.
	mark := fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, s.id, len(s.steps))
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	if s.check {
		if err := quickCheck(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// quickCheck checks the file for damage.
func quickCheck(ctx context.Context, tx *sql.Tx) error {
	var answer string
	if err := tx.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		return fmt.Errorf("file is damaged: %s", answer)
	}
	return nil
}

// fileError adds a hint to the error of a file that cannot be opened.
func fileError(path string, s schema, err error) error {
	hint := s.hint
	var code *sqlite.Error
	switch {
	case errors.Is(err, errNewer):
		hint = "a newer release of pando wrote it: install that release again, or restore the backup from before " +
			"the update"
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		hint = "check that the data directory exists and belongs to the user that runs pando (root, as a rule)"
	case errors.As(err, &code) && code.Code()&0xff == sqlite3.SQLITE_BUSY:
		hint = "another process has it open: stop it, or use another data directory"
	case isFull(err):
		hint = "the disk is full: make room and start again"
	}
	return &FileError{Path: path, hint: hint, Err: err}
}

// isFull reports whether a file could not grow, including the shared memory of readers and writer.
func isFull(err error) bool {
	var code *sqlite.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code.Code() {
	case sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_IN_PAGE: // or a hole in that file could not be filled
		return true
	}
	return code.Code()&0xff == sqlite3.SQLITE_FULL
}

// close ends the writer after its queued jobs, and closes the file.
func (f *file) close() error {
	close(f.stop)
	<-f.done
	return f.closeDBs()
}

func (f *file) closeDBs() error {
	var err error
	for _, db := range []*sql.DB{f.read, f.wdb} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}
