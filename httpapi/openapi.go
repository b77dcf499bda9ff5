package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	swagger "github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

// newHuma makes the Huma API and its registry of schemas: JSON only, without Huma's own routes and $schema links.
func newHuma(cfg Config, engine *gin.Engine) (huma.API, huma.Registry) {
	registry := huma.NewMapRegistry(schemaPrefix, func(t reflect.Type, hint string) string {
		if t == reflect.TypeFor[ErrorBody]() {
			return "Error"
		}
		return huma.DefaultSchemaNamer(t, hint)
	})
	registry.RegisterTypeAlias(reflect.TypeFor[uuid.UUID](), reflect.TypeFor[uuidSchema]())
	registry.RegisterTypeAlias(reflect.TypeFor[refusal](), reflect.TypeFor[ErrorBody]())
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:    "3.1.0",
			Info:       &huma.Info{Title: cfg.Title, Version: cfg.Version, Description: cfg.Documentation.Description},
			Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": bearerScheme()}},
			Security:   []map[string][]string{{"bearer": {}}},
			Tags:       cfg.Documentation.tags(),
		},
		Formats: map[string]huma.Format{"application/json": {
			Marshal:   huma.DefaultJSONFormat.Marshal,
			Unmarshal: json.Unmarshal,
		}},
		DefaultFormat: "application/json",
	}
	if cfg.BaseURL != "" {
		config.Servers = []*huma.Server{{URL: cfg.BaseURL}}
	}
	return humagin.New(engine, config), registry
}

func bearerScheme() *huma.SecurityScheme {
	return &huma.SecurityScheme{
		Type: "http", Scheme: "bearer",
		Description: "An API key, the token of a service identity, or the session token of a signed-in user.",
	}
}

// OpenAPI returns the OpenAPI 3.1 document of everything that has been registered, as JSON. Call it when all routes are
// registered.
func (a *API) OpenAPI() ([]byte, error) {
	a.completed.Do(a.completeSchemas)
	document, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	return document, nil
}

// docsPolicy is a content security policy that lets the page load from this server only. Swagger UI needs inline
// styles.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.}}</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript. The document itself is at <a href="openapi.json">openapi.json</a>.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`))

var frontPage = template.Must(template.New("front").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<h1>{{.Title}}</h1>
<p>This is the address of the HTTP interface, version {{.Version}}. Programs send their requests to paths below <code>v1/</code>.</p>
<ul>
<li><a href="docs">The reference of all endpoints</a>, to read and to try</li>
<li><a href="openapi.json">The OpenAPI document</a>, to generate clients</li>
<li><a href="readyz">Whether this node is ready</a></li>
</ul>
</body>
</html>
`))

const docsScript = `window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null
});
`

// serveDocs adds /openapi.json, /docs, and a front page at / for people who open the address in a browser. Everything
// that the pages load is embedded in the binary.
func (a *API) serveDocs() {
	var (
		once     sync.Once
		document []byte
		failed   error
	)
	a.engine.GET("/openapi.json", func(c *gin.Context) {
		once.Do(func() { document, failed = a.OpenAPI() }) // at the first request, when all routes are registered
		if failed != nil {
			a.refuse(c, failed)
			return
		}
		answer(c, http.StatusOK, document)
	})

	var page bytes.Buffer
	if err := docsPage.Execute(&page, a.cfg.Title); err != nil {
		panic(err) // cannot happen: the template only inserts a string
	}
	a.engine.GET("/docs", func(c *gin.Context) {
		c.Header("content-security-policy", docsPolicy)
		c.Data(http.StatusOK, "text/html; charset=utf-8", page.Bytes())
	})
	var front bytes.Buffer
	if err := frontPage.Execute(&front, a.cfg); err != nil {
		panic(err) // cannot happen: the template only inserts texts
	}
	a.engine.GET("/", func(c *gin.Context) {
		c.Header("content-security-policy", docsPolicy)
		c.Data(http.StatusOK, "text/html; charset=utf-8", front.Bytes())
	})
	for path, to := range map[string]string{"/docs/": "../docs", "/favicon.ico": "docs/favicon-32x32.png"} {
		a.engine.GET(path, func(c *gin.Context) {
			c.Header("location", to) // relative, so that it is right behind a proxy that adds a prefix
			c.Status(http.StatusPermanentRedirect)
		})
	}
	files := http.StripPrefix("/docs", statigz.FileServer(swagger.FS))
	a.engine.GET("/docs/:file", func(c *gin.Context) {
		c.Header("content-security-policy", docsPolicy)
		if c.Param("file") == "start.js" {
			c.Data(http.StatusOK, "text/javascript; charset=utf-8", []byte(docsScript))
			return
		}
		c.Header("cache-control", "public, max-age=3600")
		files.ServeHTTP(c.Writer, c.Request)
	})
}
