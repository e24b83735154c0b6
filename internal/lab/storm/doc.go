// Package storm measures boots of many nodes at once on slow links.
//
// A storm is a real `pando serve`, a network namespace with a link of its own for each node, and in each of them a
// real block daemon; the package replays the reads of a recorded boot and compares every byte. It owns the runs and
// storm.json. cmd/pando-lab calls it and gives it the other systems to compare with. It must never import another
// room of the lab, and never show figures of a run in which the machine was too busy without saying so.
package storm
