package smsconnection_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/smsconnection"
	"ledgerline/events"
)

func TestContactKeepsItsNumberAsLongAsItIsListed(t *testing.T) {
	t.Parallel()
	c := smsconnection.Connection{FromNumbers: []string{"+1", "+2", "+3"}}
	first := c.Sender("ctc_1", "", "")
	require.Contains(t, c.FromNumbers, first)
	for _, n := range c.FromNumbers {
		require.Equal(t, n, c.Sender("ctc_1", "", n))
	}
	c.FromNumbers = []string{"+4", "+5"}
	require.Contains(t, c.FromNumbers, c.Sender("ctc_1", "+1", first), "a number that is gone does not send")
}

func TestMessagingServiceWinsOverNumbersUnlessTheContactWroteToOne(t *testing.T) {
	t.Parallel()
	c := smsconnection.Connection{FromNumbers: []string{"+1", "+2"}, MessagingServiceSID: "MG"}
	require.Empty(t, c.Sender("ctc_1", "", "+1"))
	require.Equal(t, "+2", c.Sender("ctc_1", "+2", "+1"))
	c.MessagingServiceSID = ""
	require.Equal(t, "+2", c.Sender("ctc_1", "+2", "+1"))
}

func TestOnlyAnActiveAndConfirmedConnectionIsReady(t *testing.T) {
	t.Parallel()
	var c smsconnection.Connection
	apply := func(e events.Event) smsconnection.Connection {
		c = c.Apply(e, events.Envelope{})
		return c
	}
	require.False(t, apply(&events.SMSConnectionCreated{ConnectionID: "smc_1"}).Ready())
	require.False(t, apply(&events.SMSConnectionVerified{}).Ready())
	require.True(t, apply(&events.SMSComplianceConfirmed{}).Ready())
	require.False(t, apply(&events.SMSConnectionFailing{}).Ready())
	require.True(t, apply(&events.SMSConnectionVerified{}).Ready())
	require.False(t, apply(&events.SMSConnectionDisabled{}).Ready())
	require.False(t, apply(&events.SMSConnectionEnabled{}).Ready())
	require.Equal(t, smsconnection.Pending, c.Status)
	apply(&events.SMSConnectionVerified{})
	require.False(t, apply(&events.SMSConnectionUpdated{Changed: []string{"auth_token"}, Unverified: true}).Ready())
	require.False(t, apply(&events.SMSConnectionDeleted{}).Exists())
}

func TestChangesOfADisabledConnectionMakeItPendingAndDisabledTogetherStops(t *testing.T) {
	t.Parallel()
	c := smsconnection.Connection{ID: "smc_1", AuthToken: "old", Status: smsconnection.Disabled}
	token, yes := "new", true
	list, err := c.Update(smsconnection.Change{Account: smsconnection.Account{AuthToken: &token}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, smsconnection.Pending, c.Apply(list[0], events.Envelope{}).Status)
	list, err = c.Update(smsconnection.Change{Account: smsconnection.Account{AuthToken: &token}, Disabled: &yes})
	require.NoError(t, err)
	require.Equal(t, &events.SMSConnectionDisabled{ConnectionID: "smc_1"}, list[len(list)-1])
}

func TestEndOfATokenIsNeverMoreThanHalfOfIt(t *testing.T) {
	t.Parallel()
	for token, end := range map[string]string{"": "", "a": "", "ab": "b", "abc": "c", "abcdef": "def", "abcdefghij": "ghij"} {
		require.Equal(t, end, smsconnection.LastFour(token))
	}
}
