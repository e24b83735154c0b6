// Package bootlog keeps the latest boot of each machine, and writes the server's own events to the timelines of boots.
//
// It owns the boots in memory, which are a cache of the registry, and the queue of events that are written after the
// reply. Packages that answer firmware and nodes call it; they hold the lock of a boot while they work on it. It must
// never delay the reply to a DHCP packet by a write to history, and never write events of one boot out of order.
package bootlog
