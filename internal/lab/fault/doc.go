// Package fault is a hostile peer: it joins a storm as any node does, and sends objects that are wrong, cut off,
// endless or slow.
//
// It owns the note of whom it sent what, which it leaves when it ends. The storm starts it as a process of its own,
// `pando-lab bad-peer`. It must never be part of a program that is shipped.
package fault
