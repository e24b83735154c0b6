// Package hostcheck checks this machine for what keeps nodes from booting: ports, firewall, boot files, tools, disk
// space, clock.
//
// It owns no state. Each check returns findings with their fix. The commands `doctor` and `up` run the checks. It must
// never change the machine; the check of the firewall has a tap device while it runs.
package hostcheck
