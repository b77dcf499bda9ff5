package bluebubbles

import (
	"encoding/json"
	"strings"
	"time"
)

// The parts of the server's JSON that the adapter reads.

// envelope is the outer object of every answer.
type envelope struct {
	Status int             `json:"status"`
	Data   json.RawMessage `json:"data"`
	Error  *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Error   string `json:"error"`
	} `json:"error"`
}

type wireMessage struct {
	GUID           string           `json:"guid"`
	TempGUID       string           `json:"tempGuid"`
	Text           *string          `json:"text"`
	Handle         *wireHandle      `json:"handle"`
	Chats          []wireChat       `json:"chats"`
	Attachments    []wireAttachment `json:"attachments"`
	Error          int              `json:"error"`
	Created        int64            `json:"dateCreated"` // these are unix milliseconds, or null
	DateRead       int64            `json:"dateRead"`
	DateDelivered  int64            `json:"dateDelivered"`
	IsDelivered    bool             `json:"isDelivered"`
	FromMe         bool             `json:"isFromMe"`
	ItemType       int              `json:"itemType"`              // other than 0: a notice, for example that a member joined
	AssociatedGUID string           `json:"associatedMessageGuid"` // of the message that a reaction is about
}

type wireHandle struct {
	Address string `json:"address"` // E.164, a short code, or an e-mail address
	Service string `json:"service"` // iMessage, SMS or RCS
}

type wireChat struct {
	GUID       string `json:"guid"` // service;-;address, or service;+;name for a group
	Identifier string `json:"chatIdentifier"`
	Style      int    `json:"style"`
	Messages   []wireMessage
}

type wireAttachment struct {
	GUID     string  `json:"guid"`
	MIME     *string `json:"mimeType"`
	Name     *string `json:"transferName"`
	Bytes    *int64  `json:"totalBytes"`
	Hidden   bool    `json:"hideAttachment"`
	Outgoing bool    `json:"isOutgoing"`
}

// groupStyle marks a chat of more than two people.
const groupStyle = 43

func (m *wireMessage) group() bool {
	for _, c := range m.Chats {
		if c.Style == groupStyle || strings.Contains(c.GUID, ";+;") {
			return true
		}
	}
	return false
}

// with reports whether the message belongs to the chat of two people with an address.
func (m *wireMessage) with(address string) bool {
	for _, c := range m.Chats {
		if c.Identifier == address || strings.HasSuffix(c.GUID, ";-;"+address) {
			return true
		}
	}
	return m.Handle != nil && m.Handle.Address == address && !m.group()
}

// placeholder is the character in a text in the place of an attachment.
const placeholder = "\ufffc"

func (m *wireMessage) text() string {
	if m.Text == nil {
		return ""
	}
	return plain(*m.Text)
}

// plain normalises a text for comparison: the server keeps neither line ends, nor outer spaces, nor placeholders.
func plain(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(text, placeholder, ""), "\r\n", "\n"))
}

func at(milliseconds int64) time.Time {
	if milliseconds <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds).UTC()
}

// codeUnregistered is the error of a message whose recipient is not on iMessage.
const codeUnregistered = 22

// failure is the error code of a message for an error code of a server.
func failure(code int) string {
	if code == codeUnregistered {
		return "not_on_chat"
	}
	return "carrier_rejected"
}
