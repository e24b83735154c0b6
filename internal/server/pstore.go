package server

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/registry"
	"pando/internal/trace"
)

// maxPstore is how much is kept of what a kernel left: it shares the console of its boot with what was heard while
// it lived.
const maxPstore = registry.MaxConsole / 2

// keepPstore puts what the next boot of a machine found in pstore where it belongs: on the console of the boot that
// died, and, if that was a panic, on its timeline. Which boot left it is not written in it; it is taken for the one
// before, among those whose kernel ran.
func (s *Server) keepPstore(ctx context.Context, told registry.Boot, text string) error {
	text = strings.TrimSpace(levelMark.ReplaceAllString(text, ""))
	text = text[max(len(text)-maxPstore, 0):]
	var died registry.Boot
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		boots, err := tx.Boots(registry.BootFilter{MAC: told.MAC})
		for _, b := range boots {
			if b.Started.Before(told.Started) && !b.Init.IsZero() && b.Started.After(died.Started) {
				died = b
			}
		}
		return err
	})
	if err != nil || died.ID == "" || text == "" {
		return err
	}
	old, err := s.registry.Console(ctx, died.ID)
	if err != nil || strings.Contains(old, text) {
		return err // it was told already
	}
	text = fmt.Sprintf("-- left in pstore, found by the next boot, %s --\n%s\n", told.ID, text)
	if err := s.registry.PutConsole(ctx, died.ID, []byte(text), s.now()); err != nil {
		return err
	}
	says := panicked(text)
	p, err := s.registry.Progress(ctx, died.ID)
	if err != nil || says == "" || p[died.ID].Panic {
		return err
	}
	_, err = s.registry.Append(
		ctx,
		trace.Event{
			Time:    s.now(),
			Boot:    died.ID,
			Node:    died.Node,
			MAC:     died.MAC,
			Stage:   p[died.ID].Stage,
			Kind:    trace.Info,
			Message: says,
			Attrs:   map[string]string{trace.AttrPanic: "true"},
		},
	)
	return err
}
