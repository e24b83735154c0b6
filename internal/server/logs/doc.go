// Package logs is the server's room for logs of nodes: their systemd journals, and the messages of their kernels by
// netconsole, by reports and from pstore.
//
// It owns the kept journals and the running uploads; kernel messages go to the registry. Nodes upload to it, the
// dashboard and operators read it, and the rooms that answer boots get the units from it that make a node send. It
// must never fail a boot, and never keep a journal whose sender did not show the certificate of the node's latest
// boot.
package logs
