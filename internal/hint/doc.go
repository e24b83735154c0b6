// Package hint joins an error with a hint: what an operator can do about it.
//
// It owns no state. Code below the HTTP handlers returns such errors; code that writes an error for people (boot
// script, log, API reply) reads the hint. It must never change the identity of an error (errors.Is).
package hint
