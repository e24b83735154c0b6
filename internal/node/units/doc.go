// Package units has the files in /run for the image's programs: systemd units, and settings that keep the image's
// network managers off the root's adapter.
//
// It owns these texts, and the commands that the units run. Init writes the files. It must not change the image.
package units
