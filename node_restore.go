package firn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/restore"
)

// RestoreOptions say what Restore brings back.
type RestoreOptions struct {
	// Cluster is the one to restore; zero: the only one in the bucket that nobody has taken over.
	Cluster kafka.UUID
	// Topics are those that come back, by name; none: the whole cluster.
	Topics []string
	// DryRun only tells what would come back.
	DryRun bool
	// TakeOver is a cluster that has taken over Cluster and never came to life: it is put in its place.
	TakeOver kafka.UUID
}

// ParseClusterID reads the id of a cluster, in hexadecimal as in the bucket's keys, or as Kafka prints it.
func ParseClusterID(text string) (kafka.UUID, error) { return checkpoint.ParseClusterID(text) }

// Restore makes the directories of a node from the bucket alone. The node that is then started on them is a new
// cluster, and the owner of what the old one has in the bucket. Directories that hold data are refused, unless single
// topics are restored: then those of a node that is stopped are added to. A restore that was interrupted is begun again
// by calling it again.
func Restore(ctx context.Context, cfg Config, deps Dependencies, options RestoreOptions) (
	report *RestoreReport, err error,
) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	begun := time.Now()
	r := &restoration{options: options, store: newNode(cfg, deps)}
	defer func() { err = errors.Join(err, r.store.Stop(context.WithoutCancel(ctx))) }()
	for _, step := range []func(context.Context) error{r.store.openBucket, r.lookAtTarget, r.makePlan} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if !options.DryRun {
		if err := r.carryOut(ctx); err != nil {
			return nil, err
		}
	}
	report = newRestoreReport(r.plan)
	report.DryRun = options.DryRun
	report.NotCommitted = r.notCommitted
	if !options.DryRun {
		report.Cluster = r.cluster.Hex()
	}
	report.Seconds = time.Since(begun).Seconds()
	return report, nil
}

// restoration is a restore under way.
type restoration struct {
	options RestoreOptions
	store   *Node // has nothing but configuration, dependencies and the bucket
	plan    *restore.Plan
	cluster kafka.UUID // that comes to be, or that is added to
	// existing: there is a node in the directories, which gets some topics more.
	existing bool
	// unfinished: an earlier restore has left something in the directories.
	unfinished   *restoreMark
	notCommitted []string
}

// restoreMark is a file in the metadata directory that says that a restore is not finished: nobody may start a node
// there. It names the successor, which the claim in the bucket names too, so that the same restore can begin again.
type restoreMark struct {
	Cluster   string `json:"cluster"`
	Successor string `json:"successor"`
}

const restoreMarkName = "restore-unfinished.json"

func restoreMarkPath(cfg *Config) string { return path.Join(cfg.MetadataDir, restoreMarkName) }

// readRestoreMark reads the mark; nil if there is none.
func readRestoreMark(fsys vfs.FS, cfg *Config) (*restoreMark, error) {
	data, err := vfs.ReadFile(fsys, restoreMarkPath(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	mark := &restoreMark{}
	if err == nil {
		err = json.Unmarshal(data, mark)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", restoreMarkPath(cfg), err)
	}
	return mark, nil
}

// refuseUnfinished keeps a node from being started on half of a restore.
func (n *Node) refuseUnfinished() error {
	if n.restoring {
		return nil
	}
	mark, err := readRestoreMark(n.deps.FS, &n.config)
	if err != nil || mark == nil {
		return err
	}
	return fmt.Errorf("a restore into %s was not finished: give the same `firn restore` again, or remove the directory",
		n.config.MetadataDir)
}

// lookAtTarget finds out what the directories hold.
func (r *restoration) lookAtTarget(context.Context) error {
	fsys, cfg := r.store.deps.FS, &r.store.config
	if !cfg.Tier.Enabled {
		return errors.New("remote.log.storage.system.enable is false: a node without an object store cannot be restored")
	}
	var err error
	if r.unfinished, err = readRestoreMark(fsys, cfg); err != nil {
		return err
	}
	if r.unfinished != nil {
		if r.options.Cluster.IsZero() { // it is taken over already, by this restore
			r.options.Cluster, err = checkpoint.ParseClusterID(r.unfinished.Cluster)
		}
		return err
	}
	used := ""
	for _, dir := range append([]string{cfg.MetadataDir}, cfg.LogDirs...) {
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(names) > 0 && used == "" {
			used = dir
		}
	}
	r.existing = used != ""
	if r.existing && len(r.options.Topics) == 0 && !r.options.DryRun {
		return fmt.Errorf("%s holds data: a cluster is restored into directories that are empty or missing, so give "+
			"another --data-dir, or move that one away; --topic adds single topics to a stopped node", used)
	}
	return nil
}

func (r *restoration) makePlan(ctx context.Context) (err error) {
	r.plan, err = restore.MakePlan(ctx, restore.Options{
		Bucket: r.store.bucket, Cluster: r.options.Cluster, Topics: r.options.Topics,
	})
	return err
}

// carryOut does it. From the claim on the old cluster is at an end.
func (r *restoration) carryOut(ctx context.Context) error {
	if err := r.prepare(); err != nil {
		return err
	}
	builder := newNode(r.store.config, r.dependencies())
	builder.restoring, builder.newCluster = true, r.cluster
	if err := r.build(ctx, builder); err != nil {
		return errors.Join(err, builder.Stop(context.WithoutCancel(ctx)))
	}
	if err := builder.Stop(ctx); err != nil {
		return err
	}
	if err := r.commitOffsets(ctx); err != nil {
		return err
	}
	if r.existing {
		return nil
	}
	cfg := &r.store.config
	if err := r.store.deps.FS.Remove(restoreMarkPath(cfg)); err != nil {
		return err
	}
	return r.store.deps.FS.SyncDir(cfg.MetadataDir)
}

// dependencies are those of a node that works for the restore: it has metrics of its own, which nobody sees.
func (r *restoration) dependencies() Dependencies {
	deps := r.store.deps
	deps.Registry, deps.Bucket = prometheus.NewRegistry(), r.store.bucket
	return deps
}

// prepare marks new directories as unfinished, and empties those of an unfinished restore.
func (r *restoration) prepare() error {
	if r.existing {
		return nil
	}
	fsys, cfg := r.store.deps.FS, &r.store.config
	r.cluster = newID()
	if mark := r.unfinished; mark != nil {
		successor, err := checkpoint.ParseClusterID(mark.Successor)
		if err == nil && mark.Cluster != r.plan.Cluster.Hex() {
			err = fmt.Errorf("it is of cluster %s: remove %s first", mark.Cluster, cfg.MetadataDir)
		}
		if err != nil {
			return fmt.Errorf("an earlier restore was not finished: %w", err)
		}
		r.cluster = successor
		if err := r.clear(); err != nil {
			return fmt.Errorf("remove what an unfinished restore has left: %w", err)
		}
	}
	if err := vfs.MkdirAllDurable(fsys, cfg.MetadataDir); err != nil {
		return fmt.Errorf("metadata.log.dir: %w", err)
	}
	data, err := json.Marshal(restoreMark{Cluster: r.plan.Cluster.Hex(), Successor: r.cluster.Hex()})
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, restoreMarkPath(cfg), append(data, '\n'))
}

// clear removes everything but the mark, unless the other restore is still at it.
func (r *restoration) clear() error {
	fsys, cfg := r.store.deps.FS, &r.store.config
	lock, err := fsys.Lock(path.Join(cfg.MetadataDir, lockName))
	if err != nil {
		return fmt.Errorf("%s is in use: %w", cfg.MetadataDir, err)
	}
	if err := lock.Close(); err != nil {
		return err
	}
	for _, dir := range append([]string{cfg.MetadataDir}, cfg.LogDirs...) {
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if dir == cfg.MetadataDir && name == restoreMarkName {
				continue
			}
			if err := fsys.RemoveAll(path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, database := range []string{"state", "raft"} { // the same folder, unless a test has them elsewhere
		err := r.store.deps.PebbleFS.RemoveAll(path.Join(cfg.MetadataDir, database))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
