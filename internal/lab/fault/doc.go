// Package fault is a hostile peer: it joins a storm as a node does, and sends objects that are wrong, truncated,
// endless or slow.
//
// It owns its log of what it sent to whom, which it writes when it ends. The storm starts it as a separate process,
// `pando-lab bad-peer`. It must never be part of a program that is shipped.
package fault
