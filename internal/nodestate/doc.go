// Package nodestate renders the systemd units and the script that keep a node's directories across boots and mount
// what its group declares. The node gets them in /run, and the image's systemd runs them, so that they are ordered
// before the services that need them.
//
// It owns these texts. The server renders them for a boot. It must never use the time, and never touch a file.
package nodestate
