package bluebubblestest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/handle/availability/imessage", s.availability)
	mux.HandleFunc("GET /api/v1/chat/{guid}", s.findChat)
	mux.HandleFunc("POST /api/v1/chat/new", s.newChat)
	mux.HandleFunc("POST /api/v1/message/text", s.sendText)
	mux.HandleFunc("POST /api/v1/message/attachment", s.sendAttachment)
	mux.HandleFunc("POST /api/v1/message/query", s.queryMessages)
	mux.HandleFunc("GET /api/v1/message/{guid}", s.findMessage)
	mux.HandleFunc("GET /api/v1/attachment/{guid}/download", s.download)
	mux.HandleFunc("GET /api/v1/webhook", s.listHooks)
	mux.HandleFunc("POST /api/v1/webhook", s.addHook)
	mux.HandleFunc("DELETE /api/v1/webhook/{id}", s.deleteHook)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		mode := s.mode
		s.mu.Unlock()
		query := r.URL.Query()
		password := query.Get("guid") + query.Get("password") + query.Get("token")
		sends := r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/query") && !strings.HasSuffix(r.URL.Path, "/webhook")
		switch {
		case password != s.Password:
			refuse(w, http.StatusUnauthorized, "You are not authorized to access this resource", "Authentication Error", "Unauthorized", nil)
		case sends && mode == LosesRequests:
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		case sends && mode == LosesAnswers:
			mux.ServeHTTP(&discardedAnswer{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// discardedAnswer is an http.ResponseWriter that discards the answer.
type discardedAnswer struct{ header http.Header }

func (s *discardedAnswer) Header() http.Header         { return s.header }
func (s *discardedAnswer) Write(p []byte) (int, error) { return len(p), nil }
func (s *discardedAnswer) WriteHeader(int)             {}

// refuseWithoutHelper refuses a request that needs the helper of the private API; false when the helper is connected.
func (s *Server) refuseWithoutHelper(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.PrivateAPI:
		refuse(w, http.StatusInternalServerError, "The server has encountered an error", "Server Error", "iMessage Private API is not enabled!", nil)
	case s.mode == Busy:
		refuse(w, http.StatusInternalServerError, "The server has encountered an error", "Server Error", "iMessage Private API Helper is not connected!", nil)
	default:
		return false
	}
	return true
}

func (s *Server) availability(w http.ResponseWriter, r *http.Request) {
	if s.refuseWithoutHelper(w) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	succeed(w, map[string]any{"available": !s.offIMessage[r.URL.Query().Get("address")]})
}

func (s *Server) findChat(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok := strings.CutPrefix(r.PathValue("guid"), "iMessage;-;")
	if !ok || !s.hasChat(address) {
		refuse(w, http.StatusNotFound, "The requested resource was not found", "Database Error", "Chat does not exist!", nil)
		return
	}
	succeed(w, s.chat(address, false))
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "You've made a bad request! Please check your request params & body", "Validation Error", "Bad Request", nil)
		return false
	}
	return true
}

func invalid(w http.ResponseWriter, text string) {
	refuse(w, http.StatusBadRequest, "You've made a bad request! Please check your request params & body", "Validation Error", text, nil)
}

func (s *Server) newChat(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Addresses []string `json:"addresses"`
		Message   string   `json:"message"`
		Method    string   `json:"method"`
		Service   string   `json:"service"`
		TempGUID  string   `json:"tempGuid"`
	}
	if !read(w, r, &in) {
		return
	}
	if len(in.Addresses) == 0 || in.Service != "iMessage" || !slices.Contains([]string{"private-api", "apple-script"}, in.Method) {
		invalid(w, "The addresses field is required.")
		return
	}
	if in.Method == "private-api" && s.refuseWithoutHelper(w) {
		return
	}
	if len(in.Addresses) > 1 || in.Message == "" {
		refuse(w, http.StatusInternalServerError, "The server has encountered an error", "Server Error", "A message is required when creating chats!", nil)
		return
	}
	m, ok := s.send(w, in.Addresses[0], in.TempGUID, &Message{Text: in.Message})
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chat, data := s.chat(m.Address, false), s.serialize(&m, false)
	data["tempGuid"] = in.TempGUID
	chat["participants"] = []any{map[string]any{"address": m.Address, "service": "iMessage"}}
	chat["messages"] = []any{data}
	succeed(w, chat)
}

func (s *Server) sendText(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ChatGUID string `json:"chatGuid"`
		Message  string `json:"message"`
		Method   string `json:"method"`
		TempGUID string `json:"tempGuid"`
	}
	if !read(w, r, &in) {
		return
	}
	s.sendToChat(w, in.ChatGUID, in.Method, in.TempGUID, &Message{Text: in.Message}, in.Message != "")
}

func (s *Server) sendAttachment(w http.ResponseWriter, r *http.Request) {
	uploaded, _, err := r.FormFile("attachment")
	if err != nil {
		invalid(w, "Attachment not provided or was empty!")
		return
	}
	content, err := io.ReadAll(uploaded)
	name := r.FormValue("name")
	if err != nil || len(content) == 0 || name == "" {
		invalid(w, "Attachment not provided or was empty!")
		return
	}
	m := &Message{Attachments: []Attachment{{Name: name, MIME: "application/octet-stream", Bytes: content}}}
	s.sendToChat(w, r.FormValue("chatGuid"), r.FormValue("method"), r.FormValue("tempGuid"), m, true)
}

// sendToChat sends a message to an existing chat. complete is false when a part of the request is missing.
func (s *Server) sendToChat(w http.ResponseWriter, chat, method, temp string, m *Message, complete bool) {
	address, ok := strings.CutPrefix(chat, "iMessage;-;")
	if !ok || !complete || method == "apple-script" && temp == "" {
		invalid(w, "A 'tempGuid' is required when sending via AppleScript")
		return
	}
	if method == "private-api" && s.refuseWithoutHelper(w) {
		return
	}
	sent, ok := s.send(w, address, temp, m)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.serialize(&sent, true)
	data["tempGuid"] = temp
	succeed(w, data)
}

// send adds a message to the database, reports it and returns it. It returns false when it has written a refusal.
func (s *Server) send(w http.ResponseWriter, address, temp string, m *Message) (Message, bool) {
	s.mu.Lock()
	m.Address, m.FromMe, m.Error = address, true, s.bounce[address]
	if s.offIMessage[address] {
		m.Error = 22
	}
	s.setDefaults(m)
	s.messages = append(s.messages, m)
	sent := *m
	data := s.serialize(m, true)
	s.mu.Unlock()
	if sent.Error != 0 {
		s.report("message-send-error", &sent, temp)
		refuse(w, http.StatusInternalServerError, "Message Send Error", "iMessage Error", "Failed to send message! See attached message error code.", data)
		return sent, false
	}
	s.report("new-message", &sent, temp)
	return sent, true
}

func (s *Server) queryMessages(w http.ResponseWriter, r *http.Request) {
	var in struct {
		After  int64    `json:"after"`
		Offset int      `json:"offset"`
		Limit  int      `json:"limit"`
		Sort   string   `json:"sort"`
		With   []string `json:"with"`
	}
	if !read(w, r, &in) {
		return
	}
	if in.Limit < 1 || in.Limit > 1000 || in.Sort != "ASC" && in.Sort != "DESC" {
		invalid(w, "The limit may not be greater than 1000.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Message
	for _, m := range s.messages {
		if m.Created.UnixMilli() >= in.After {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b *Message) int { return a.Created.Compare(b.Created) })
	if in.Sort == "DESC" {
		slices.Reverse(found)
	}
	list := []any{}
	for i := in.Offset; i < min(in.Offset+in.Limit, len(found)); i++ {
		shown := s.serialize(found[i], slices.Contains(in.With, "chat"))
		if !slices.Contains(in.With, "attachment") {
			shown["attachments"] = []any{}
		}
		list = append(list, shown)
	}
	succeed(w, list)
}

func (s *Server) findMessage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.GUID == r.PathValue("guid") {
			succeed(w, s.serialize(m, false))
			return
		}
	}
	refuse(w, http.StatusNotFound, "The requested resource was not found", "Database Error", "Message does not exist!", nil)
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		for _, a := range m.Attachments {
			if a.GUID == r.PathValue("guid") {
				w.Header().Set("Content-Type", a.MIME)
				_, _ = w.Write(a.Bytes)
				return
			}
		}
	}
	refuse(w, http.StatusNotFound, "The requested resource was not found", "Database Error", "Attachment does not exist!", nil)
}

func (s *Server) listHooks(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []hook{}
	succeed(w, append(list, s.hooks...))
}

func (s *Server) addHook(w http.ResponseWriter, r *http.Request) {
	var in hook
	if !read(w, r, &in) {
		return
	}
	known := []string{"*", "new-message", "updated-message", "message-send-error", "typing-indicator", "chat-read-status-changed", "hello-world"}
	for _, event := range in.Events {
		if !slices.Contains(known, event) || !strings.HasPrefix(in.URL, "http") {
			invalid(w, "Invalid webhook event: "+event)
			return
		}
	}
	s.AddHook(in.URL, in.Events...)
	succeed(w, in)
}

func (s *Server) deleteHook(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.PathValue("id"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = slices.DeleteFunc(s.hooks, func(h hook) bool { return h.ID == id })
	succeed(w, nil)
}
