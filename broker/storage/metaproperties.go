package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/magiconair/properties"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// Owner is whose data a directory holds.
type Owner struct {
	ClusterID kafka.UUID
	NodeID    kafka.BrokerID
}

// MetaProperties is Kafka's meta.properties, version 1: it keeps a broker from starting on another one's data.
type MetaProperties struct {
	Owner
	DirectoryID kafka.UUID
}

const metaPropertiesVersion = "1"

// ReadMetaProperties reads the meta.properties of a directory; fs.ErrNotExist says that there is none.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	name := path.Join(dir, metaPropertiesName)
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return MetaProperties{}, err
	}
	meta, err := parseMetaProperties(data)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("%s: %w", name, err)
	}
	return meta, nil
}

func parseMetaProperties(data []byte) (MetaProperties, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	values, err := loader.LoadBytes(data)
	if err != nil {
		return MetaProperties{}, err
	}
	if version := values.GetString("version", ""); version != metaPropertiesVersion {
		return MetaProperties{}, fmt.Errorf("version is %q and should be %s", version, metaPropertiesVersion)
	}
	var meta MetaProperties
	if meta.ClusterID, err = kafka.ParseUUID(values.GetString("cluster.id", "")); err != nil {
		return MetaProperties{}, fmt.Errorf("cluster.id: %w", err)
	}
	nodeID, err := strconv.ParseInt(values.GetString("node.id", ""), 10, 32)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("node.id: %w", err)
	}
	meta.NodeID = kafka.BrokerID(nodeID)
	if meta.DirectoryID, err = kafka.ParseUUID(values.GetString("directory.id", "")); err != nil {
		return MetaProperties{}, fmt.Errorf("directory.id: %w", err)
	}
	return meta, nil
}

func (m MetaProperties) encode() []byte {
	return fmt.Appendf(nil, "version=%s\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n",
		metaPropertiesVersion, m.ClusterID, m.NodeID, m.DirectoryID)
}

// WriteMetaProperties makes the meta.properties of a directory, durably.
func WriteMetaProperties(fsys vfs.FS, dir string, meta MetaProperties) error {
	return vfs.WriteFileAtomic(fsys, path.Join(dir, metaPropertiesName), meta.encode())
}

// ClaimDirectory checks that a directory is the owner's, or makes it so if it is new, and returns its id.
func ClaimDirectory(fsys vfs.FS, dir Directory, owner Owner) (kafka.UUID, error) {
	meta, err := ReadMetaProperties(fsys, dir.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return newClaim(fsys, dir, owner)
	}
	if err != nil {
		return kafka.UUID{}, err
	}
	name := path.Join(dir.Path, metaPropertiesName)
	switch {
	case meta.ClusterID != owner.ClusterID:
		return kafka.UUID{}, fmt.Errorf("%s belongs to cluster %s and this is cluster %s: is it the right directory?",
			name, meta.ClusterID, owner.ClusterID)
	case meta.NodeID != owner.NodeID:
		return kafka.UUID{}, fmt.Errorf("%s belongs to node %d and this is node %d: set node.id=%d or another directory",
			name, meta.NodeID, owner.NodeID, meta.NodeID)
	case !dir.ID.IsZero() && meta.DirectoryID != dir.ID:
		return kafka.UUID{}, fmt.Errorf("%s is directory %s and should be %s: are the directories mixed up?",
			name, meta.DirectoryID, dir.ID)
	}
	return meta.DirectoryID, nil
}

func newClaim(fsys vfs.FS, dir Directory, owner Owner) (kafka.UUID, error) {
	meta := MetaProperties{Owner: owner, DirectoryID: dir.ID}
	if meta.DirectoryID.IsZero() {
		meta.DirectoryID = randomUUID()
	}
	if err := WriteMetaProperties(fsys, dir.Path, meta); err != nil {
		return kafka.UUID{}, fmt.Errorf("claim log directory %s: %w", dir.Path, err)
	}
	return meta.DirectoryID, nil
}

// randomUUID is an id that nothing else has.
func randomUUID() kafka.UUID {
	var id kafka.UUID
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}
