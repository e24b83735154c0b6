// Package dhcpload measures how many four-way exchanges a second DHCP servers answer: Pando, dnsmasq and Kea, by Kea's
// perfdhcp in one run.
//
// It owns a network namespace for the servers, one for the clients, and dhcp.json. cmd/pando-lab calls it. It must
// never measure two servers at a time.
package dhcpload
