// Package bootlog keeps the latest boot of each machine and writes the server's events of boots to their timelines.
//
// It owns the boots in memory, a cache of the registry, and the queue of events that are written behind a reply. Rooms
// that answer firmware and nodes call it; each works on a boot while it holds that boot's lock. It must never delay the
// reply to a DHCP packet by a write to history, and never write events of one boot out of order.
package bootlog
