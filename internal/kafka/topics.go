package kafka

// The topics of Kafka's own, which are made by the coordinators that keep their state in them.
const (
	GroupMetadataTopic    = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// IsInternalTopic tells whether a name belongs to a topic of Kafka's own.
func IsInternalTopic(name string) bool {
	switch name {
	case GroupMetadataTopic, TransactionStateTopic, ShareGroupStateTopic:
		return true
	}
	return false
}
