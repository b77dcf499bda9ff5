package service

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"ledgerline/domain/fault"
)

// refuseOtherRole makes a node that serves only reads or only writes say so, when it gets a request of the other kind.
func (n *Node) refuseOtherRole() {
	missing, isMissing := "write", func(method string) bool { return method != http.MethodGet && method != http.MethodHead }
	if n.cfg.Roles.Write {
		missing, isMissing = "read", func(method string) bool { return method == http.MethodGet || method == http.MethodHead }
	}
	routes := n.API.Engine()
	refuse := func(otherwise *fault.Fault) gin.HandlerFunc {
		return func(c *gin.Context) {
			refused := otherwise
			if isMissing(c.Request.Method) && strings.HasPrefix(c.Request.URL.Path, "/v1/") {
				refused = fault.New(fault.MethodNotAllowed, "This node does not have the role %s: send %s requests to a node that has it.", missing, knownMethod(c.Request.Method))
			}
			n.API.Refuse(c, refused)
		}
	}
	routes.NoRoute(refuse(fault.New(fault.NotFound, "There is nothing here.")))
	routes.NoMethod(refuse(fault.New(fault.MethodNotAllowed, "This path does not take this method.")))
}

// knownMethod keeps a text of the client out of the answer.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete:
		return method
	}
	return "such"
}
