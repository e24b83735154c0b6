package boot

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/trace"
)

func bootStats(env *cmdenv.Env) *cobra.Command {
	var by string
	var q api.HistoryQuery
	c := &cobra.Command{
		Use:   "stats [NODES]",
		Short: "How long boots of the past took: the middle one, the 95th of a hundred, and the longest",
		Example: `  pando boot stats --by version
  pando boot stats @lab --by class`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			q.Select = cmdenv.Arg(args, 0)
			f, err := c.HistoryFigures(ctx, by, q)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, f)
			}
			if len(f.Of) == 0 {
				env.Printf("no boot of these nodes is on record yet\n")
				return nil
			}
			t := output.NewTable(env.Out, strings.ToUpper(f.By), "BOOTS", "P50", "P95", "MAX", "FAILED")
			for _, x := range f.Of {
				t.Row(
					x.Name,
					strconv.Itoa(x.Boots),
					took(x.P50),
					took(x.P95),
					took(x.Max),
					output.Count(x.Failures),
				)
			}
			t.Flush()
			return nil
		}),
	}
	c.Flags().StringVar(&by, "by", "group", "group, version, class, firmware or node")
	c.Flags().IntVar(&q.Limit, "limit", 1000, "of the newest so many boots")
	return env.ReadFlags(c)
}

// took returns how long boots took, "-" if none of them reached booted.
func took(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return output.Span(d)
}

func bootCompare(env *cmdenv.Env) *cobra.Command {
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
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			x, err := c.CompareHistory(ctx, fleet.Ref(args[0]), fleet.Ref(args[1]), class)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, x)
			}
			printComparison(env, x)
			return nil
		}),
	}
	c.Flags().StringVar(&class, "class", "", "only boots of this kind of hardware, as boot stats --by class names it")
	return env.ReadFlags(c)
}

func printComparison(env *cmdenv.Env, x api.BootComparison) {
	side := func(b api.ComparedBoots) string {
		s := fmt.Sprintf("%s (%s), %d boots", b.Ref, b.Version.Short(), b.Boots)
		if b.Failures > 0 {
			s += fmt.Sprintf(", %d failed", b.Failures)
		}
		return s
	}
	output.Fields(env.Out, "before", side(x.Before), "after", side(x.After))
	t := output.NewTable(env.Out, "STAGE", "BEFORE", "AFTER", "CHANGE", "P", "")
	for _, c := range x.Changes {
		name, mark := string(c.Stage), ""
		if name == "" {
			name = "whole boot"
		}
		if c.Real {
			mark = "real"
		}
		t.Row(
			name,
			output.Span(c.Before.P50),
			output.Span(c.After.P50),
			output.Span(c.Shift),
			fmt.Sprintf("%.3f", c.P),
			mark,
		)
	}
	env.Printf("\n")
	t.Flush()
	env.Printf("\n%s\n", comparisonText(x))
}

// comparisonText says in one line whether boots of two versions differ.
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
	text := fmt.Sprintf("boots take %s %s", output.Span(max(whole.Shift, -whole.Shift)), way)
	if x.Culprit != "" {
		text += ", most of it in " + string(x.Culprit)
	}
	return text
}

func bootExport(env *cmdenv.Env) *cobra.Command {
	var format, file string
	c := &cobra.Command{
		Use:   "export NODE|BOOT",
		Short: "Write a boot as a trace for a viewer such as ui.perfetto.dev",
		Example: `  pando boot export pc001 -o pc001.json
  pando boot export 5f0c9ae1b2d34477 > boot.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if format != "chrome" {
				return exitcode.Usagef("format %q is not known: chrome is", format)
			}
			b, err := findBoot(ctx, c, args[0])
			if err != nil {
				return err
			}
			body, err := trace.EncodeChrome([]trace.Process{{Name: listing.BootOwner(b.Boot), Spans: b.Spans()}})
			if err != nil {
				return err
			}
			if file == "" {
				_, err = env.Out.Write(output.PlainJSON(body))
				return err
			}
			return os.WriteFile(file, body, 0o644)
		}),
	}
	c.Flags().StringVar(&format, "format", "chrome", "chrome: the JSON trace event format")
	c.Flags().StringVarP(&file, "output", "o", "", "file to write (default: standard output)")
	return c
}
