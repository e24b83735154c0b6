// Package extension takes out of a changed copy of a version what running nodes can lay over that version: /usr and
// /opt.
//
// It owns the rules of what an extension carries. The pipeline (internal/build) makes the copy, installs into it, and
// builds what this package left. What was changed elsewhere is told (Left); it must never drop a change silently that
// a program of the extension needs.
package extension
