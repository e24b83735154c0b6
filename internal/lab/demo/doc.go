// Package demo shows Pando on this computer: a server, three emulated machines without disks, and a proof of each.
//
// It owns the directory of the demo: state.json says what runs, so that a killed demo can be cleaned up by the next
// one. cmd/pando-lab calls it. It must never leave anything running unless --keep was given.
package demo
