package boot

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"

	"golang.org/x/sys/unix"
)

// maxOutput is how much of what a failed command printed is told: its end.
const maxOutput = 400

// syncConfig makes the config files what the server has for this boot, and runs the commands of those that changed.
func (a *agent) syncConfig(ctx context.Context, dryRun bool) ([]api.SyncedFile, error) {
	var got api.NodeConfigResponse
	self := a.self()
	if err := a.control.call(ctx, "/v1/node/config", "Bearer "+self.Session, api.NodeConfigRequest{Boot: self.Boot}, &got); err != nil {
		return nil, err
	}
	root, err := openRootDir(a.root)
	if err != nil {
		return nil, err
	}
	defer root.close()
	out := root.sync(got.Files, dryRun)
	if !dryRun {
		runAll(ctx, out)
		a.logf("config files: %d changed", len(out))
	}
	return out, nil
}

// sync puts the files in place that are not as they should be.
func (r *rootDir) sync(files []fleet.File, dryRun bool) []api.SyncedFile {
	var out []api.SyncedFile
	for _, f := range files {
		is, there, err := r.same(f)
		if is {
			continue
		}
		if err == nil && !dryRun {
			err = r.put(f)
		}
		s := api.SyncedFile{Path: f.Path, New: !there, Run: f.Run}
		if err != nil {
			s.Error, s.Run = err.Error(), ""
		}
		out = append(out, s)
	}
	return out
}

// same reports whether a file is there, and as it should be.
func (r *rootDir) same(f fleet.File) (is, there bool, err error) {
	if f.Owner != "" {
		if f.UID, f.GID, err = r.owner(f.Owner); err != nil {
			return false, true, err
		}
	}
	file, err := r.open(f.Path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, false, nil
	}
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(int(file.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, true, nil
	}
	if st.Size != int64(len(f.Data)) || st.Mode&0o7777 != f.Mode&0o7777 || int(st.Uid) != f.UID ||
		int(st.Gid) != f.GID {
		return false, true, nil
	}
	data, err := r.read(f.Path)
	return err == nil && bytes.Equal(data, f.Data), true, nil
}

// runAll runs the commands of the files, each once.
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

// runShell runs a command of the image's shell, and returns how it failed, "" when it did not.
func runShell(ctx context.Context, command string) string {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	text := strings.TrimSpace(string(out))
	return strings.TrimSuffix(fmt.Sprintf("%v: %s", err, text[max(0, len(text)-maxOutput):]), ": ")
}
