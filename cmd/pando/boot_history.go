package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

func (a *app) bootStats() *cobra.Command {
	var by string
	var q api.HistoryQuery
	c := &cobra.Command{
		Use:   "stats [NODES]",
		Short: "How long boots of the past took: the middle one, the 95th of a hundred, and the longest",
		Example: `  pando boot stats --by version
  pando boot stats @lab --by class`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			q.Select = arg(args, 0)
			f, err := c.HistoryFigures(ctx, by, q)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, f)
			}
			t := newTable(a.out, strings.ToUpper(f.By), "BOOTS", "P50", "P95", "MAX", "FAILED")
			for _, x := range f.Of {
				t.row(x.Name, strconv.Itoa(x.Boots), span(x.P50), span(x.P95), span(x.Max), count(x.Failures))
			}
			t.flush()
			return nil
		}),
	}
	c.Flags().StringVar(&by, "by", "group", "group, version, class, firmware or node")
	c.Flags().IntVar(&q.Limit, "limit", 1000, "of the newest so many boots")
	return a.readFlags(c)
}

func (a *app) bootCompare() *cobra.Command {
	var class string
	c := &cobra.Command{
		Use:   "compare VERSION VERSION",
		Short: "Compare the boots of two versions: which stage changed, and whether it is more than noise",
		Long: `Compare the boots of two versions. A change counts as more than noise when the rank-sum test of Mann and Whitney gives it a
probability below 0.01 (of all stages together), and when it is more than a twentieth and more than a tenth of a second. Five
boots of each version are the least with which the test can find anything.`,
		Example: `  pando boot compare lab:v1 lab:v2
  pando boot compare lab:stable lab:latest --class acme-3000`,
		Args: cobra.ExactArgs(2),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			x, err := c.CompareHistory(ctx, fleet.Ref(args[0]), fleet.Ref(args[1]), class)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, x)
			}
			a.printComparison(x)
			return nil
		}),
	}
	c.Flags().StringVar(&class, "class", "", "only boots of this kind of hardware, as `boot stats --by class` names it")
	return a.readFlags(c)
}

func (a *app) printComparison(x api.BootComparison) {
	side := func(b api.ComparedBoots) string {
		s := fmt.Sprintf("%s (%s), %d boots", b.Ref, b.Version.Short(), b.Boots)
		if b.Failures > 0 {
			s += fmt.Sprintf(", %d failed", b.Failures)
		}
		return s
	}
	fields(a.out, "before", side(x.Before), "after", side(x.After))
	t := newTable(a.out, "STAGE", "BEFORE", "AFTER", "CHANGE", "P", "")
	for _, c := range x.Changes {
		name, mark := string(c.Stage), ""
		if name == "" {
			name = "whole boot"
		}
		if c.Real {
			mark = "real"
		}
		t.row(name, span(c.Before.P50), span(c.After.P50), span(c.Shift), fmt.Sprintf("%.3f", c.P), mark)
	}
	a.printf("\n")
	t.flush()
	a.printf("\n%s\n", comparisonText(x))
}

// comparisonText is the answer in one line.
func comparisonText(x api.BootComparison) string {
	if len(x.Changes) == 0 || min(x.Before.Boots, x.After.Boots) < 5 {
		return "too few boots to tell: five of each version are the least"
	}
	whole := x.Changes[0]
	if !whole.Real {
		return "no difference that is more than noise"
	}
	way := "longer"
	if whole.Shift < 0 {
		way = "less"
	}
	text := fmt.Sprintf("boots take %s %s", span(max(whole.Shift, -whole.Shift)), way)
	if x.Culprit != "" {
		text += ", most of it in " + string(x.Culprit)
	}
	return text
}

func (a *app) bootExport() *cobra.Command {
	var format, output string
	c := &cobra.Command{
		Use:   "export NODE|BOOT",
		Short: "Write a boot as a trace for a viewer such as ui.perfetto.dev",
		Example: `  pando boot export pc001 -o pc001.json
  pando boot export 5f0c9ae1b2d34477 > boot.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if format != "chrome" {
				return usagef("format %q is not known: chrome is", format)
			}
			b, err := findBoot(ctx, c, args[0])
			if err != nil {
				return err
			}
			body, err := trace.EncodeChrome([]trace.Process{{Name: bootOwner(b.Boot), Spans: b.Spans()}})
			if err != nil {
				return err
			}
			if output == "" {
				_, err = a.out.Write(body)
				return err
			}
			return os.WriteFile(output, body, 0o644)
		}),
	}
	c.Flags().StringVar(&format, "format", "chrome", "chrome: the JSON trace event format")
	c.Flags().StringVarP(&output, "output", "o", "", "file to write (default: standard output)")
	return c
}
