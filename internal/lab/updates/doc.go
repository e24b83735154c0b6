// Package updates measures what changes of an image cost in bytes: of thirty daily versions of a Debian tree, in
// Pando's store and in other ways to keep or send trees.
//
// It owns update.json and its work directory, from which a run that was ended goes on. cmd/pando-lab calls it. It
// must never measure two versions at a time in one way.
package updates
