package twiliotest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2010-04-01/Accounts/{file}", s.with("file", s.getAccount))
	mux.HandleFunc("GET /2010-04-01/Accounts/{sid}/IncomingPhoneNumbers.json", s.with("sid", s.listNumbers))
	mux.HandleFunc("POST /2010-04-01/Accounts/{sid}/IncomingPhoneNumbers/{file}", s.with("sid", s.updateNumber))
	mux.HandleFunc("GET /2010-04-01/Accounts/{sid}/Messages.json", s.with("sid", s.listMessages))
	mux.HandleFunc("POST /2010-04-01/Accounts/{sid}/Messages.json", s.with("sid", s.createMessage))
	mux.HandleFunc("GET /2010-04-01/Accounts/{sid}/Messages/{message}/Media/{media}", s.with("sid", s.getMedia))
	mux.HandleFunc("GET /v1/Services/{service}", s.with("", s.service))
	mux.HandleFunc("POST /v1/Services/{service}", s.with("", s.service))
	return mux
}

// answer is what a route answers: a status and JSON, or a file.
type answer struct {
	status int
	body   any
	file   *file
	after  func() // runs after the answer was sent
}

func refused(status, code int, text string) answer {
	return answer{status: status, body: object{"code": code, "message": text, "more_info": "https://www.twilio.com/docs/errors/" + strconv.Itoa(code), "status": status}}
}

// with checks the credentials, and simulates the failure of the server's mode. param names the part of the path with
// the account; "" for none.
func (s *Server) with(param string, do func(r *http.Request, accountSID string, a *account) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.begin(r)
		defer s.end()
		_ = r.ParseForm()
		s.mu.Lock()
		mode, changed := s.mode, s.changed
		s.mu.Unlock()
		switch mode {
		case Down:
			write(w, refused(http.StatusServiceUnavailable, 20503, "Service unavailable"))
			return
		case Limiting:
			w.Header().Set("Retry-After", strconv.Itoa(RetryAfter))
			write(w, refused(http.StatusTooManyRequests, 20429, "Too Many Requests"))
			return
		case Hanging:
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		case LosesRequests:
			panic(http.ErrAbortHandler)
		case Working, DownAccepting, LosesAnswers:
		}
		given := s.authorised(r, param, do)
		if mode == LosesAnswers && r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		if mode == DownAccepting && r.Method == http.MethodPost {
			given = answer{status: http.StatusInternalServerError, body: object{"code": 20500, "message": "Internal Server Error", "status": 500}, after: given.after}
		}
		write(w, given)
		if given.after != nil {
			given.after()
		}
	}
}

func (s *Server) begin(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.calls++
	s.most = max(s.most, s.calls)
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
}

func (s *Server) authorised(r *http.Request, param string, do func(r *http.Request, accountSID string, a *account) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, token, _ := r.BasicAuth()
	a := s.accounts[user]
	if s.open && strings.HasPrefix(user, "AC") && token != "" && !strings.HasPrefix(token, "bad") {
		if a == nil {
			a = &account{status: "active", numbers: map[string]*number{}, services: map[string]*service{}}
			s.accounts[user] = a
		}
		a.token = token
	}
	named := user
	if param != "" {
		named = strings.TrimSuffix(r.PathValue(param), ".json")
	}
	if a == nil || a.token != token || named != user {
		return refused(http.StatusUnauthorized, 20003, "Authenticate")
	}
	return do(r, user, a)
}

func write(w http.ResponseWriter, a answer) {
	if a.file != nil {
		w.Header().Set("Content-Type", a.file.mime)
		_, _ = w.Write(a.file.bytes)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body) //nolint:errchkjson // the client sees a broken answer
}

func (s *Server) getAccount(_ *http.Request, sid string, a *account) answer {
	return answer{status: 200, body: object{"sid": sid, "friendly_name": "Test", "status": a.status, "type": "Full"}}
}

func (s *Server) listNumbers(r *http.Request, _ string, a *account) answer {
	wanted := r.URL.Query().Get("PhoneNumber")
	if s.open && wanted != "" && a.numbers[wanted] == nil {
		a.numbers[wanted] = &number{SID: s.sid("PN"), Number: wanted}
	}
	list := []object{}
	for _, n := range a.numbers {
		if wanted == "" || n.Number == wanted {
			list = append(list, object{"sid": n.SID, "phone_number": n.Number, "sms_url": n.SMSURL})
		}
	}
	return answer{status: 200, body: object{"incoming_phone_numbers": list, "next_page_uri": nil}}
}

func (s *Server) updateNumber(r *http.Request, _ string, a *account) answer {
	for _, n := range a.numbers {
		if n.SID == strings.TrimSuffix(r.PathValue("file"), ".json") {
			n.SMSURL = r.PostForm.Get("SmsUrl")
			return answer{status: 200, body: object{"sid": n.SID, "phone_number": n.Number, "sms_url": n.SMSURL}}
		}
	}
	return refused(http.StatusNotFound, 20404, "The requested resource was not found")
}

func (s *Server) service(r *http.Request, accountSID string, a *account) answer {
	sid := r.PathValue("service")
	if s.open && a.services[sid] == nil {
		a.services[sid] = &service{SID: sid}
	}
	v := a.services[sid]
	if v == nil {
		return refused(http.StatusNotFound, 20404, "The requested resource was not found")
	}
	if r.Method == http.MethodPost {
		v.InboundURL = r.PostForm.Get("InboundRequestUrl")
	}
	return answer{status: 200, body: object{"sid": sid, "account_sid": accountSID, "inbound_request_url": v.InboundURL}}
}

func (s *Server) getMedia(r *http.Request, _ string, _ *account) answer {
	found, ok := s.media[r.URL.Path]
	if !ok {
		return refused(http.StatusNotFound, 20404, "The requested resource was not found")
	}
	return answer{status: 200, file: &found}
}

func (s *Server) listMessages(r *http.Request, accountSID string, _ *account) answer {
	to := r.URL.Query().Get("To")
	size, _ := strconv.Atoi(r.URL.Query().Get("PageSize"))
	page, _ := strconv.Atoi(r.URL.Query().Get("Page"))
	size = max(size, 1)
	var all []object
	for i := len(s.messages) - 1; i >= 0; i-- {
		if m := s.messages[i]; m.AccountSID == accountSID && (to == "" || m.To == to) {
			all = append(all, shown(m))
		}
	}
	from, until := min(page*size, len(all)), min((page+1)*size, len(all))
	var next any
	if until < len(all) {
		query := r.URL.Query()
		query.Set("Page", strconv.Itoa(page+1))
		next = r.URL.Path + "?" + query.Encode()
	}
	return answer{status: 200, body: object{"messages": append([]object{}, all[from:until]...), "next_page_uri": next}}
}

func shown(m *Message) object {
	orNull := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	out := object{
		"sid": m.SID, "account_sid": m.AccountSID, "status": m.Status, "body": m.Body, "to": m.To, "from": orNull(m.From), "direction": m.Direction,
		"messaging_service_sid": orNull(m.ServiceSID), "num_media": strconv.Itoa(len(m.Media)), "num_segments": "1",
		"date_created": m.DateCreated.UTC().Format(time.RFC1123Z), "error_code": nil, "error_message": nil,
	}
	if m.ErrorCode != 0 {
		out["error_code"] = m.ErrorCode
	}
	return out
}

// maxBody is the longest text, in characters.
const maxBody = 1600

func (s *Server) createMessage(r *http.Request, accountSID string, a *account) answer {
	form := r.PostForm
	m := &Message{
		AccountSID: accountSID, Direction: "outbound-api", From: form.Get("From"), To: form.Get("To"), ServiceSID: form.Get("MessagingServiceSid"),
		Body: form.Get("Body"), Media: form["MediaUrl"], Callback: form.Get("StatusCallback"), Status: "queued", DateCreated: s.now(),
	}
	switch {
	case m.To == "":
		return refused(http.StatusBadRequest, 21604, "A 'To' phone number is required.")
	case m.Body == "" && len(m.Media) == 0:
		return refused(http.StatusBadRequest, 21619, "A text message body or media urls must be specified.")
	case m.From == "" && m.ServiceSID == "":
		return refused(http.StatusBadRequest, 21603, "A 'From' phone number is required.")
	case len([]rune(m.Body)) > maxBody:
		return refused(http.StatusBadRequest, 21617, "The concatenated message body exceeds the 1600 character limit.")
	case s.blocked[m.To]:
		return refused(http.StatusBadRequest, 21610, "Attempt to send to unsubscribed recipient")
	case m.From != "" && !s.open && a.numbers[m.From] == nil:
		return refused(http.StatusBadRequest, 21659, "'From' is not a Twilio phone number")
	case m.ServiceSID != "" && !s.open && a.services[m.ServiceSID] == nil:
		return refused(http.StatusNotFound, 21701, "The Messaging Service does not exist")
	}
	if m.ServiceSID != "" && m.From == "" {
		m.Status = "accepted"
	}
	m.SID = s.sid("SM")
	s.messages = append(s.messages, m)
	made := answer{status: http.StatusCreated, body: shown(m)}
	if s.open && m.Callback != "" {
		made.after = func() { s.deliver(m.SID, m.To) }
	}
	return made
}

// deliver reports a message of an open server as sent, and as delivered or not.
func (s *Server) deliver(sid, to string) {
	s.reports.Go(func() {
		s.Report(sid, "sent", 0)
		if strings.HasSuffix(to, "0188") {
			s.Report(sid, "undelivered", 30003)
			return
		}
		s.Report(sid, "delivered", 0)
	})
}
