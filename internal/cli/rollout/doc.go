// Package rollout has the command `rollout`: start, watch, pause, resume and cancel the change of a group to another
// image.
//
// It calls the HTTP API and follows events to draw progress on a terminal. The package cli adds the command to the
// tree. It must never decide the next step: the server does.
package rollout
