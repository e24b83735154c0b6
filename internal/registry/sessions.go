package registry

import (
	"fmt"
	"time"
)

// endedSession is the prefix of the settings' keys for sessions that a user logged out of. The value is the time when
// the session would have expired.
const endedSession = "ended session "

func endedKey(id Hash) string { return fmt.Sprintf("%s%x", endedSession, id[:]) }

// EndSession records that a session ended early, and deletes the records of sessions that have expired meanwhile.
func (t *Tx) EndSession(id Hash, until, now time.Time) error {
	_, err := t.exec(
		`DELETE FROM settings WHERE key LIKE ? AND value < ?`, endedSession+"%", now.UTC().Format(time.RFC3339),
	)
	if err != nil {
		return fmt.Errorf("delete records of ended sessions: %w", err)
	}
	return t.putSetting(endedKey(id), until.UTC().Format(time.RFC3339))
}

// SessionEnded reports whether EndSession was called for a session.
func (t *Tx) SessionEnded(id Hash) (bool, error) {
	until, err := t.setting(endedKey(id), "")
	return until != "", err
}
