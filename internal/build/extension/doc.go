// Package extension takes from a changed copy of a version what running nodes can mount over that version: the changes
// below /usr and /opt.
//
// It owns the rules of what an extension contains. The pipeline (internal/build) makes the copy, installs into it, and
// builds the result. Changes in other directories are reported (Left). It must never drop a change silently that a
// program of the extension needs.
package extension
