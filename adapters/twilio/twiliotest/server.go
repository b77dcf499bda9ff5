// Package twiliotest stands in for the SMS provider: the part of Twilio's REST API that the adapter uses, after its
// public documentation, with the failures that tests need. Dev mode uses it when no provider is configured.
//
// An open server knows every account whose token does not begin with "bad", gives each account every number that is
// asked for, and reports the messages that it takes as sent and delivered: to numbers that end in 0188 it cannot
// deliver. A server that is not open knows the accounts that were added, and reports when it is told to.
package twiliotest

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the provider signs with HMAC-SHA1
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mode is a failure that a server simulates.
type Mode int

// The modes.
const (
	Working       Mode = iota // no failure
	Down                      // it answers 503 and does nothing
	DownAccepting             // it answers 500 and carries the request out
	Limiting                  // it answers 429 with Retry-After
	Hanging                   // it answers nothing until the mode changes, and does nothing
	LosesAnswers              // it carries out a request and closes the connection without an answer
	LosesRequests             // it closes the connection and does nothing
)

// RetryAfter is the pause in seconds that a limiting server asks for.
const RetryAfter = 300

// Message is a message at the provider.
type Message struct {
	SID         string
	AccountSID  string
	Direction   string // outbound-api or inbound
	From, To    string
	ServiceSID  string
	Body        string
	Media       []string
	Callback    string
	Status      string
	ErrorCode   int
	DateCreated time.Time
}

type account struct {
	token    string
	status   string
	numbers  map[string]*number // by number
	services map[string]*service
}

type number struct{ SID, Number, SMSURL string }

type service struct{ SID, InboundURL string }

// Server is a running server.
type Server struct {
	open     bool
	now      func() time.Time
	client   *http.Client
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
	reports  sync.WaitGroup

	mu       sync.Mutex
	mode     Mode
	changed  chan struct{} // closed when the mode changes
	accounts map[string]*account
	blocked  map[string]bool // numbers that opted out at the provider
	messages []*Message
	media    map[string]file
	requests []string
	calls    int // under way
	most     int // the most calls that were under way
	rewrite  func(string) string
	next     int
}

type file struct {
	mime  string
	bytes []byte
}

// Open starts an open server on a free port of this machine. Close ends it.
func Open(log *slog.Logger) (*Server, error) { return start(log, true) }

// Cleaner is the part of testing.TB that Start needs.
type Cleaner interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Start starts a server for a test that knows no account, and ends it with the test.
func Start(t Cleaner) *Server {
	t.Helper()
	s, err := start(slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatalf("twiliotest: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(log *slog.Logger, open bool) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local, and ended by Close
	if err != nil {
		return nil, fmt.Errorf("twiliotest: %w", err)
	}
	s := &Server{
		open: open, now: time.Now, client: &http.Client{Timeout: 15 * time.Second}, log: log, listener: listener, changed: make(chan struct{}),
		accounts: map[string]*account{}, blocked: map[string]bool{}, media: map[string]file{}, rewrite: func(address string) string { return address },
	}
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Close ends the server.
func (s *Server) Close() {
	s.SetMode(Working)
	_ = s.server.Close()
	s.reports.Wait()
}

// URL is the server's address.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Forward makes the server connect to another address instead of one that begins with base, as a proxy in front of the
// service would. Signatures stay those of the original address.
func (s *Server) Forward(base, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewrite = func(address string) string {
		if rest, fits := strings.CutPrefix(address, base); fits {
			return to + rest
		}
		return address
	}
}

// SetMode sets the failure that the server simulates from now on.
func (s *Server) SetMode(mode Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	close(s.changed)
	s.changed = make(chan struct{})
}

// AddAccount adds an active account with numbers.
func (s *Server) AddAccount(sid, token string, numbers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &account{token: token, status: "active", numbers: map[string]*number{}, services: map[string]*service{}}
	for _, n := range numbers {
		a.numbers[n] = &number{SID: s.sid("PN"), Number: n}
	}
	s.accounts[sid] = a
}

// AddService adds a messaging service to an account.
func (s *Server) AddService(accountSID, serviceSID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[accountSID].services[serviceSID] = &service{SID: serviceSID}
}

// SetStatus sets the status of an account: active, suspended or closed.
func (s *Server) SetStatus(accountSID, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[accountSID].status = status
}

// Block makes the provider refuse messages to a number with 21610, as after a STOP that it has seen.
func (s *Server) Block(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked[to] = true
}

// AddMedia adds a file to an account and returns its address.
func (s *Server) AddMedia(accountSID, mime string, bytes []byte) (address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := "/2010-04-01/Accounts/" + accountSID + "/Messages/" + s.sid("MM") + "/Media/" + s.sid("ME")
	s.media[path] = file{mime, bytes}
	return s.URL() + path
}

// sid returns a new id. s.mu is held.
func (s *Server) sid(prefix string) string {
	s.next++
	return fmt.Sprintf("%s%032x", prefix, s.next)
}

// Messages lists the messages that were accepted, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Message, len(s.messages))
	for i, m := range s.messages {
		list[i] = *m
	}
	return list
}

// MessagesTo lists the messages that were accepted for a number, oldest first.
func (s *Server) MessagesTo(to string) []Message {
	return slices.DeleteFunc(s.Messages(), func(m Message) bool { return m.To != to })
}

// Requests lists the requests so far, as method and path.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// MostCalls returns the greatest number of requests that were under way at the same time.
func (s *Server) MostCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// InboundURL returns where the account's number or messaging service sends what contacts write.
func (s *Server) InboundURL(accountSID, sender string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[accountSID]
	if a == nil {
		return ""
	}
	if n := a.numbers[sender]; n != nil {
		return n.SMSURL
	}
	if v := a.services[sender]; v != nil {
		return v.InboundURL
	}
	return ""
}

// Report gives a message a status, and posts the callback. It returns the status of the service's answer; 0 when there
// was none.
func (s *Server) Report(sid, status string, errorCode int) int {
	s.mu.Lock()
	i := slices.IndexFunc(s.messages, func(m *Message) bool { return m.SID == sid })
	if i < 0 {
		s.mu.Unlock()
		return 0
	}
	m := s.messages[i]
	m.Status, m.ErrorCode = status, errorCode
	form, callback, token := s.callbackForm(m), m.Callback, s.token(m.AccountSID)
	s.mu.Unlock()
	return s.Post(callback, token, form)
}

// callbackForm is the body of a status callback. s.mu is held.
func (s *Server) callbackForm(m *Message) url.Values {
	form := url.Values{
		"AccountSid": {m.AccountSID}, "ApiVersion": {"2010-04-01"}, "From": {m.From}, "To": {m.To}, "MessageSid": {m.SID}, "SmsSid": {m.SID},
		"MessageStatus": {m.Status}, "SmsStatus": {m.Status},
	}
	if m.ServiceSID != "" {
		form.Set("MessagingServiceSid", m.ServiceSID)
	}
	if m.ErrorCode != 0 {
		form.Set("ErrorCode", fmt.Sprint(m.ErrorCode))
	}
	return form
}

func (s *Server) token(accountSID string) string {
	if a := s.accounts[accountSID]; a != nil {
		return a.token
	}
	return ""
}

// Receive makes a contact write to a number of an account: it posts the message to address, signed. The same sid again
// is the same message. It returns the id and the status of the service's answer.
func (s *Server) Receive(address, accountSID, from, to, body, sid string, media ...string) (id string, status int) {
	s.mu.Lock()
	if sid == "" {
		sid = s.sid("SM")
	}
	form := url.Values{
		"AccountSid": {accountSID}, "ApiVersion": {"2010-04-01"}, "From": {from}, "To": {to}, "Body": {body}, "MessageSid": {sid}, "SmsSid": {sid},
		"SmsMessageSid": {sid}, "SmsStatus": {"received"}, "NumMedia": {fmt.Sprint(len(media))}, "NumSegments": {"1"},
	}
	for i, m := range media {
		form.Set(fmt.Sprint("MediaUrl", i), m)
		if path, ok := strings.CutPrefix(m, s.URL()); ok {
			form.Set(fmt.Sprint("MediaContentType", i), s.media[path].mime)
		}
	}
	token := s.token(accountSID)
	s.mu.Unlock()
	return sid, s.Post(address, token, form)
}

// Post posts a report, signed with a token, and returns the status of the answer; 0 when there was none.
func (s *Server) Post(address, token string, form url.Values) int {
	s.mu.Lock()
	to := s.rewrite(address)
	s.mu.Unlock()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return 0
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	request.Header.Set("X-Twilio-Signature", Sign(token, address, form))
	response, err := s.client.Do(request)
	if err != nil {
		s.log.Warn("twiliotest: a report was not taken", "error", err)
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// Sign returns the signature of a report to an address.
func Sign(token, address string, form url.Values) string {
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	h := hmac.New(sha1.New, []byte(token))
	_, _ = io.WriteString(h, address)
	for _, name := range names {
		for _, value := range form[name] {
			_, _ = io.WriteString(h, name+value)
		}
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
