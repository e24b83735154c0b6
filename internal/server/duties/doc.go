// Package duties is what the server does by itself at intervals to stay clean: it forgets expired leases, removes swap
// space that no running boot uses, and ends copies of state that will not come.
//
// It owns no state. The server runs it for as long as it serves. It must never stop the server: a failure is logged
// and tried again the next time.
package duties
