package bluebubbles

import (
	"encoding/json"
	"strings"
	"time"
)

// What travels between a server and its clients, as far as it is looked at.

// envelope is around every answer.
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
	ItemType       int              `json:"itemType"`              // other than 0: somebody joined, a name changed
	AssociatedGUID string           `json:"associatedMessageGuid"` // of what a reaction is about
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

// groupStyle marks a chat of more than two.
const groupStyle = 43

func (m *wireMessage) group() bool {
	for _, c := range m.Chats {
		if c.Style == groupStyle || strings.Contains(c.GUID, ";+;") {
			return true
		}
	}
	return false
}

// with tells whether the message belongs to the chat of two with an address.
func (m *wireMessage) with(address string) bool {
	for _, c := range m.Chats {
		if c.Identifier == address || strings.HasSuffix(c.GUID, ";-;"+address) {
			return true
		}
	}
	return m.Handle != nil && m.Handle.Address == address && !m.group()
}

// placeholder stands in a text where an attachment is.
const placeholder = "\ufffc"

func (m *wireMessage) text() string {
	if m.Text == nil {
		return ""
	}
	return plain(*m.Text)
}

// plain is a text as it comes back: line ends, ends and placeholders are not kept.
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

// failure is our error code for a server's.
func failure(code int) string {
	if code == codeUnregistered {
		return "not_on_chat"
	}
	return "carrier_rejected"
}
