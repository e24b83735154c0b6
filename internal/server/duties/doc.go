// Package duties is the server's periodic cleanup: it deletes expired leases, swap space that no running boot uses,
// and copies of state that were abandoned.
//
// It owns no state. The server runs it while it serves. It must never stop the server: a failure is logged, and the
// job runs again at the next interval.
package duties
