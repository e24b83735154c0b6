package registry

import (
	"fmt"
	"time"
)

// Audited is one line of the audit log: who requested which change, and its result.
type Audited struct {
	Seq    int64 // grows with each line
	At     time.Time
	Who    string // "user desk", "token ci", "this machine"
	From   string // address of the client; "": the Unix socket
	Method string
	Path   string // with its query
	Body   string // as JSON, without secrets; "" if there is none or it is no JSON
	Status int    // HTTP status of the response
	Error  string // "" if the change was made
}

// maxAudited is how many lines of the audit log are kept: two months at a change a minute.
const maxAudited = 100_000

const auditColumns = `SELECT seq, at, who, source, method, path, body, status, error FROM audit`

// AppendAudited adds a line to the audit log, and removes expired lines.
func (t *Tx) AppendAudited(a Audited) error {
	_, err := t.AppendAuditedSeq(a)
	return err
}

// AmendAudited replaces who, status and error of a line.
func (t *Tx) AmendAudited(a Audited) error {
	_, err := t.exec(`UPDATE audit SET who = ?, status = ?, error = ? WHERE seq = ?`, a.Who, a.Status, a.Error, a.Seq)
	if err != nil {
		return fmt.Errorf("amend the audit log: %w", err)
	}
	return nil
}

// AppendAuditedSeq is AppendAudited, and returns the number of the new line.
func (t *Tx) AppendAuditedSeq(a Audited) (seq int64, err error) {
	_, err = t.exec(
		`INSERT INTO audit (at, who, source, method, path, body, status, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		stamp(a.At), a.Who, a.From, a.Method, a.Path, a.Body, a.Status, a.Error,
	)
	if err == nil {
		_, err = t.exec(`DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?`, maxAudited)
	}
	if err == nil {
		err = t.row(`SELECT max(seq) FROM audit`).Scan(&seq)
	}
	if err != nil {
		return 0, fmt.Errorf("append to the audit log: %w", err)
	}
	return seq, nil
}

// Audit returns up to limit lines of the audit log with numbers below before, newest first. before 0 begins at the
// newest.
func (t *Tx) Audit(before int64, limit int) ([]Audited, error) {
	all, err := list(
		t, scanAudited, auditColumns+` WHERE ? = 0 OR seq < ? ORDER BY seq DESC LIMIT ?`, before, before, limit,
	)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return all, nil
}

func scanAudited(s scanner) (Audited, error) {
	var a Audited
	var at int64
	err := s.Scan(&a.Seq, &at, &a.Who, &a.From, &a.Method, &a.Path, &a.Body, &a.Status, &a.Error)
	a.At = unstamp(at)
	return a, err
}
