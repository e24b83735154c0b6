package agent

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// maxOutput is how many bytes at the end of a failed command's output are reported.
const maxOutput = 400

// syncConfig replaces config files that differ from the server's for this boot, and runs the commands of those that
// changed. A dry run only lists them.
func (c *commands) syncConfig(ctx context.Context, dryRun bool) ([]api.SyncedFile, error) {
	var got api.NodeConfigResponse
	self := c.who.Self()
	if err := c.sender.control.Call(ctx, "/v1/node/config", "Bearer "+self.Session,
		api.NodeConfigRequest{Boot: self.Boot}, &got); err != nil {
		return nil, err
	}
	root, err := rootdir.Open(c.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out := putChanged(root, got.Files, dryRun)
	if !dryRun {
		runAll(ctx, out)
		c.sender.logf("config files: %d changed", len(out))
	}
	return out, nil
}

// putChanged writes the files that differ, and lists them.
func putChanged(root *rootdir.Dir, files []fleet.File, dryRun bool) []api.SyncedFile {
	var out []api.SyncedFile
	for _, f := range files {
		is, there, err := root.Same(f)
		if is {
			continue
		}
		if err == nil && !dryRun {
			err = root.Put(f)
		}
		s := api.SyncedFile{Path: f.Path, New: !there, Run: f.Run}
		if err != nil {
			s.Error, s.Run = err.Error(), ""
		}
		out = append(out, s)
	}
	return out
}

// runAll runs the commands of the files, each command once.
func runAll(ctx context.Context, files []api.SyncedFile) {
	failed := map[string]string{}
	for i := range files {
		f := &files[i]
		if f.Run == "" {
			continue
		}
		why, ran := failed[f.Run]
		if !ran {
			why = runShell(ctx, f.Run)
			failed[f.Run] = why
		}
		f.Failed = why
	}
}

// runShell runs a command with the image's /bin/sh. It returns how the command failed, "" if it did not.
func runShell(ctx context.Context, command string) string {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	if ctx.Err() != nil {
		return "it did not end in time, and was stopped"
	}
	text := strings.TrimSpace(string(out))
	return strings.TrimSuffix(fmt.Sprintf("%v: %s", err, text[max(0, len(text)-maxOutput):]), ": ")
}
