// Package logs is what nodes say: their systemd journals, and the messages of their kernels by netconsole, by reports
// and from pstore.
//
// It owns the kept journals and the uploads that are under way; kernel messages go to the registry. Nodes upload to it,
// the dashboard and operators read it, and boots ask it for the units that make a node send. It must never fail a boot,
// nor keep a journal whose sender did not show the certificate of the node's latest boot.
package logs
