package registry

import (
	"fmt"
	"time"
)

// endedSession is the beginning of the keys of sessions that were logged out of. Their value is when they would have
// ended by themselves.
const endedSession = "ended session "

func endedKey(id Hash) string { return fmt.Sprintf("%s%x", endedSession, id[:]) }

// EndSession notes that a session is over before its time, and forgets those whose time has come.
func (t *Tx) EndSession(id Hash, until, now time.Time) error {
	_, err := t.exec(
		`DELETE FROM settings WHERE key LIKE ? AND value < ?`, endedSession+"%", now.UTC().Format(time.RFC3339),
	)
	if err != nil {
		return fmt.Errorf("forget ended sessions: %w", err)
	}
	return t.putSetting(endedKey(id), until.UTC().Format(time.RFC3339))
}

// SessionEnded reports whether EndSession was called for a session.
func (t *Tx) SessionEnded(id Hash) (bool, error) {
	until, err := t.setting(endedKey(id), "")
	return until != "", err
}
