package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// cluster has a broker for each rack that is named, with ids from 1; "" is no rack. Each has as many directories as
// asked for.
func cluster(directories int, racks ...string) *image.Image {
	img := image.Empty()
	for i, rack := range racks {
		broker := &image.Broker{ID: kafka.BrokerID(i + 1)}
		if rack != "" {
			broker.Rack = &rack
		}
		for d := range directories {
			broker.Directories = append(broker.Directories, directory(broker.ID, d))
		}
		img = img.WithBroker(broker)
	}
	return img
}

func directory(broker kafka.BrokerID, number int) kafka.UUID {
	return kafka.UUID{byte(broker), byte(number + 1)}
}

func text(partitions []command.NewPartition) string {
	var out []string
	for _, partition := range partitions {
		out = append(out, strings.Trim(fmt.Sprint(partition.Replicas), "[]"))
	}
	return strings.Join(out, " / ")
}

func TestPlacement(t *testing.T) {
	for name, test := range map[string]struct {
		image             *image.Image
		first, partitions int32
		replicationFactor int16
		want              string
	}{
		"one broker has everything":              {cluster(1, ""), 0, 3, 1, "1 / 1 / 1"},
		"leaders go round":                       {cluster(1, "", "", ""), 0, 4, 1, "1 / 2 / 3 / 1"},
		"followers go round, further each round": {cluster(1, "", "", ""), 0, 6, 2, "1 2 / 2 3 / 3 1 / 1 3 / 2 1 / 3 2"},
		"new partitions go on where the old end": {cluster(1, "", "", ""), 2, 2, 1, "3 / 1"},
		"each rack has one replica first":        {cluster(1, "a", "a", "b", "b"), 0, 4, 2, "1 3 / 3 2 / 2 4 / 4 1"},
		"all brokers are needed":                 {cluster(1, "a", "a", "b"), 0, 1, 3, "1 3 2"},
	} {
		t.Run(name, func(t *testing.T) {
			placed, err := Placement{}.Place(test.image, test.first, test.partitions, test.replicationFactor)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, text(placed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheNextTopicBeginsAtAnotherBroker(t *testing.T) {
	img := cluster(1, "", "").WithTopic(&image.Topic{Name: "a", ID: kafka.UUID{1}})
	placed, err := Placement{}.Place(img, 0, 1, 1)
	if err != nil || text(placed) != "2" {
		t.Errorf("%s, %v", text(placed), err)
	}
}

// ME-05 at its root, and its like for partitions and assignments.
func TestME05WhatCannotBePlacedIsRefused(t *testing.T) {
	img := cluster(1, "", "", "")
	for name, test := range map[string]struct {
		partitions        int32
		replicationFactor int16
		want              kafka.Errno
	}{
		"more replicas than brokers": {1, 4, kafka.InvalidReplicationFactor},
		"no replica":                 {1, 0, kafka.InvalidReplicationFactor},
		"a negative number of them":  {1, -1, kafka.InvalidReplicationFactor},
		"no partition":               {0, 1, kafka.InvalidPartitions},
		"a negative number":          {-1, 1, kafka.InvalidPartitions},
		"a mistyped number":          {MaxPartitionsPerRequest + 1, 1, kafka.PolicyViolation},
		"two of three":               {1, 2, kafka.None},
	} {
		if _, err := (Placement{}).Place(img, 0, test.partitions, test.replicationFactor); kafka.CodeOf(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Placement{}).Place(image.Empty(), 0, 1, 1); !errors.Is(err, kafka.InvalidReplicationFactor) {
		t.Errorf("without a broker: %v", err)
	}
	for name, test := range map[string]struct {
		assignment [][]kafka.BrokerID
		want       kafka.Errno
	}{
		"by hand":             {[][]kafka.BrokerID{{3, 1}, {1, 2}}, kafka.None},
		"nothing":             {nil, kafka.InvalidPartitions},
		"a partition without": {[][]kafka.BrokerID{{}}, kafka.InvalidReplicaAssignment},
		"different numbers":   {[][]kafka.BrokerID{{1}, {1, 2}}, kafka.InvalidReplicaAssignment},
		"an unknown broker":   {[][]kafka.BrokerID{{4}}, kafka.InvalidReplicaAssignment},
		"a broker twice":      {[][]kafka.BrokerID{{1, 1}}, kafka.InvalidReplicaAssignment},
	} {
		placed, err := Placement{}.Assign(img, test.assignment)
		if kafka.CodeOf(err) != test.want || (err == nil && text(placed) != "3 1 / 1 2") {
			t.Errorf("%s: %s, %v", name, text(placed), err)
		}
	}
}

func TestReplicasGoToTheEmptierDirectory(t *testing.T) {
	img := cluster(2, "")
	img = img.WithTopic(&image.Topic{ID: kafka.UUID{1}, Name: "a", Partitions: []image.Partition{
		{Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{directory(1, 0)}},
		{Replicas: []kafka.BrokerID{1}, Directories: []kafka.UUID{directory(1, 0)}},
	}})
	placed, err := Placement{}.Place(img, 0, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []kafka.UUID
	for _, partition := range placed {
		got = append(got, partition.Directories...)
	}
	want := []kafka.UUID{directory(1, 1), directory(1, 1), directory(1, 0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// However many brokers, racks and replicas: no broker twice, leaders spread evenly, and no rack has two replicas of a
// partition while another has none.
func TestPlacementIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c"}), 1, 7).Draw(t, "racks")
		replicationFactor := rapid.IntRange(1, len(racks)).Draw(t, "replication factor")
		partitions := rapid.IntRange(1, 40).Draw(t, "partitions")
		placed, err := Placement{}.Place(cluster(1, racks...), 0, int32(partitions), int16(replicationFactor))
		if err != nil {
			t.Fatal(err)
		}
		distinct := map[string]bool{}
		for _, rack := range racks {
			distinct[rack] = true
		}
		leaders := map[kafka.BrokerID]int{}
		for i, partition := range placed {
			leaders[partition.Replicas[0]]++
			brokers, used := map[kafka.BrokerID]bool{}, map[string]bool{}
			for j, replica := range partition.Replicas {
				brokers[replica] = true
				used[racks[replica-1]] = true
				if partition.Directories[j] != directory(replica, 0) {
					t.Fatalf("partition %d: replica %d is in %v", i, replica, partition.Directories[j])
				}
			}
			if len(brokers) != replicationFactor || len(used) != min(replicationFactor, len(distinct)) {
				t.Fatalf("partition %d of racks %v is on %v", i, racks, partition.Replicas)
			}
		}
		for broker := range racks {
			if n := leaders[kafka.BrokerID(broker+1)]; n < partitions/len(racks) || n > partitions/len(racks)+1 {
				t.Fatalf("broker %d leads %d of %d partitions", broker+1, n, partitions)
			}
		}
	})
}
