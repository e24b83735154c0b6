// Package updates measures how many bytes changes of an image cost: thirty daily versions of a Debian tree, in Pando's
// store and in other ways to keep or send trees.
//
// It owns update.json and its work directory, from which an interrupted run continues. cmd/pando-lab calls it. It must
// never measure two versions at a time in one way.
package updates
