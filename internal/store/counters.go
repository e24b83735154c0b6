package store

import "pando/internal/chunk"

// Observer is told what every source did. Its methods are called by many goroutines at a time and must not
// block.
type Observer interface {
	// Received counts an object of so many stored bytes, verified.
	Received(source string, bytes int)
	// Failed reports an attempt that brought no object. errors.As with *chunk.WrongBytesError tells a source
	// that sent wrong bytes, errors.Is with ErrMissing one that has no such object.
	Failed(source string, id chunk.ID, err error)
}
