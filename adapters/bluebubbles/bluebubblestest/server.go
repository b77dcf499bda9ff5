// Package bluebubblestest is a BlueBubbles server for tests: its REST API and webhooks, as far as the adapter uses
// them, with the failures that tests need. Requests and answers have the form of server version 1.9.
package bluebubblestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Mode is a failure that a server simulates.
type Mode int

// The modes.
const (
	Working       Mode = iota // no failure
	Busy                      // the helper of the private API is not connected: nothing is sent
	LosesAnswers              // it carries out a request and closes the connection without an answer
	LosesRequests             // it closes the connection and does nothing
)

// Message is a message in the Mac's database.
type Message struct {
	GUID        string
	Text        string
	Address     string // of the other side
	Group       bool
	Service     string
	FromMe      bool
	Created     time.Time
	Delivered   time.Time
	Read        time.Time
	Error       int
	ReactionTo  string // of a reaction: the message that it is about
	ItemType    int
	Attachments []Attachment
}

// Attachment is a file of a message.
type Attachment struct {
	GUID, Name, MIME string
	Bytes            []byte
}

// Server is a running server.
type Server struct {
	Password   string
	PrivateAPI bool

	t           testing.TB
	server      *httptest.Server
	mu          sync.Mutex
	mode        Mode
	offIMessage map[string]bool // numbers
	bounce      map[string]int  // error code of messages to a number
	messages    []*Message
	hooks       []hook
	nextHook    int
	requests    []string // method and path of every request
	now         func() time.Time
}

type hook struct {
	ID     int      `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
}

// Start starts a server with a password, and ends it with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Password: "a password & more", PrivateAPI: true, t: t, offIMessage: map[string]bool{}, bounce: map[string]int{}, now: time.Now,
	}
	s.server = httptest.NewServer(s.routes())
	t.Cleanup(s.server.Close)
	return s
}

// URL is the server's address.
func (s *Server) URL() string { return s.server.URL }

// SetMode sets the failure that the server simulates from now on.
func (s *Server) SetMode(mode Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

// SetOffIMessage makes a number unreachable by iMessage.
func (s *Server) SetOffIMessage(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offIMessage[address] = true
}

// Bounce makes every message to a number fail with an error code; 0 ends that.
func (s *Server) Bounce(address string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounce[address] = code
}

// Requests lists the requests so far, as method and path.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Hooks are the addresses that the server reports to.
func (s *Server) Hooks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []string{}
	for _, h := range s.hooks {
		list = append(list, h.URL)
	}
	return list
}

// AddHook adds an address to report to.
func (s *Server) AddHook(url string, events ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextHook++
	s.hooks = append(s.hooks, hook{s.nextHook, url, events})
}

// MessagesTo lists the messages that were sent to a number.
func (s *Server) MessagesTo(address string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.messages {
		if m.FromMe && m.Address == address && m.Error == 0 {
			list = append(list, *m)
		}
	}
	return list
}

// AddMessage adds a message to the database and reports it as new, once. Like a real server it ignores whether the
// report succeeds.
func (s *Server) AddMessage(m Message) Message {
	s.mu.Lock()
	s.setDefaults(&m)
	s.messages = append(s.messages, &m)
	s.mu.Unlock()
	s.report("new-message", &m, "")
	return m
}

// AddUnreported adds a message to the database and reports nothing.
func (s *Server) AddUnreported(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setDefaults(&m)
	s.messages = append(s.messages, &m)
	return m
}

// setDefaults fills in the properties of a message that the test left empty.
func (s *Server) setDefaults(m *Message) {
	if m.GUID == "" {
		m.GUID = strings.ToUpper(uuid.NewString())
	}
	if m.Created.IsZero() {
		m.Created = s.now()
	}
	if m.Service == "" {
		m.Service = "iMessage"
	}
	for i := range m.Attachments {
		if m.Attachments[i].GUID == "" {
			m.Attachments[i].GUID = "at_0_" + strings.ToUpper(uuid.NewString())
		}
	}
}

// ChangeNewest changes the newest message to a number. With report, it reports the change.
func (s *Server) ChangeNewest(address string, report bool, change func(*Message)) {
	s.mu.Lock()
	var changed *Message
	for _, m := range s.messages {
		if m.FromMe && m.Address == address {
			changed = m
		}
	}
	if changed == nil {
		s.mu.Unlock()
		s.t.Errorf("there is no message to %s", address)
		return
	}
	change(changed)
	copied := *changed
	s.mu.Unlock()
	if report {
		s.report("updated-message", &copied, "")
	}
}

// Deliver marks the newest message to a number as delivered.
func (s *Server) Deliver(address string) {
	s.ChangeNewest(address, true, func(m *Message) { m.Delivered = s.now() })
}

// Read marks the newest message to a number as read.
func (s *Server) Read(address string) {
	s.ChangeNewest(address, true, func(m *Message) { m.Read = s.now() })
}

// ReportAll reports every message of the database again.
func (s *Server) ReportAll() {
	s.mu.Lock()
	var all []Message
	for _, m := range s.messages {
		all = append(all, *m)
	}
	s.mu.Unlock()
	for i := range all {
		s.report("new-message", &all[i], "")
		s.report("updated-message", &all[i], "")
	}
}

func (s *Server) report(kind string, m *Message, temp string) {
	s.mu.Lock()
	data := s.serialize(m, true)
	hooks := slices.Clone(s.hooks)
	s.mu.Unlock()
	if temp != "" {
		data["tempGuid"] = temp
	}
	text, err := json.Marshal(map[string]any{"type": kind, "data": data})
	if err != nil {
		s.t.Errorf("report: %v", err)
		return
	}
	for _, h := range hooks {
		if !slices.Contains(h.Events, kind) && !slices.Contains(h.Events, "*") {
			continue
		}
		response, err := http.Post(h.URL, "application/json", strings.NewReader(string(text))) //nolint:noctx,gosec // as servers do
		if err == nil {
			_ = response.Body.Close()
		}
	}
}

func milliseconds(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// serialize returns a message in the form of the REST API. The caller holds the lock.
func (s *Server) serialize(m *Message, chats bool) map[string]any {
	attachments := []any{}
	for _, a := range m.Attachments {
		attachments = append(attachments, map[string]any{
			"originalROWID": 1, "guid": a.GUID, "uti": "public.data", "mimeType": a.MIME, "transferName": a.Name, "totalBytes": len(a.Bytes),
			"transferState": 5, "isOutgoing": m.FromMe, "hideAttachment": false, "isSticker": false, "originalGuid": a.GUID, "hasLivePhoto": false,
		})
	}
	text := any(m.Text)
	if len(m.Attachments) > 0 {
		text = "\ufffc" + m.Text
	}
	var handle, about any
	if !m.FromMe {
		handle = map[string]any{"originalROWID": 7, "address": m.Address, "service": m.Service, "uncanonicalizedId": nil, "country": "us"}
	}
	if m.ReactionTo != "" {
		about = "p:0/" + m.ReactionTo
	}
	data := map[string]any{
		"originalROWID": slices.Index(s.messages, m) + 1, "guid": m.GUID, "text": text, "attributedBody": nil, "handle": handle, "handleId": 7,
		"otherHandle": 0, "attachments": attachments, "subject": nil, "error": m.Error, "dateCreated": milliseconds(m.Created),
		"dateRead": milliseconds(m.Read), "dateDelivered": milliseconds(m.Delivered), "isDelivered": !m.Delivered.IsZero(), "isFromMe": m.FromMe,
		"hasDdResults": false, "isArchived": false, "itemType": m.ItemType, "groupTitle": nil, "groupActionType": 0, "balloonBundleId": nil,
		"associatedMessageGuid": about, "associatedMessageType": nil, "expressiveSendStyleId": nil, "threadOriginatorGuid": nil,
		"hasPayloadData": false, "messageSummaryInfo": nil, "payloadData": nil, "dateEdited": nil, "dateRetracted": nil, "partCount": 1,
	}
	if chats {
		data["chats"] = []any{s.chat(m.Address, m.Group)}
	}
	return data
}

func (s *Server) chat(address string, group bool) map[string]any {
	guid, style := "iMessage;-;"+address, 45
	if group {
		guid, style = "iMessage;+;chat123456", 43
	}
	return map[string]any{
		"originalROWID": 3, "guid": guid, "style": style, "chatIdentifier": guid[strings.LastIndex(guid, ";")+1:], "isArchived": false,
		"displayName": "", "isFiltered": false, "groupId": "G", "properties": nil, "lastAddressedHandle": nil,
	}
}

// hasChat reports whether there is a chat with an address. The caller holds the lock.
func (s *Server) hasChat(address string) bool {
	return slices.ContainsFunc(s.messages, func(m *Message) bool { return m.Address == address && !m.Group })
}

func refuse(w http.ResponseWriter, status int, message, kind, text string, data any) {
	answer := map[string]any{"status": status, "message": message, "error": map[string]any{"type": kind, "message": text}}
	if data != nil {
		answer["data"] = data
	}
	write(w, status, answer)
}

func succeed(w http.ResponseWriter, data any) {
	write(w, http.StatusOK, map[string]any{"status": 200, "message": "Success", "data": data})
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(fmt.Sprintf("bluebubblestest: %v", err))
	}
}
