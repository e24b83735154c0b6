// Package demo shows Pando on this computer: a server, three emulated machines without disks, and a proof of each.
//
// It owns the directory of the demo; state.json in it lists what runs, so that the next demo can clean up after a
// killed one. cmd/pando-lab calls it. It must never leave anything running unless --keep was given.
package demo
