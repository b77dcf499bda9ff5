package treeheads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"ledgerline/clock"
)

// openS3 returns a destination in a bucket of S3 or of a service like it. Each head is an object of its own,
// PREFIX/shard-N/NUMBER-OF-BLOCKS.note, so that a bucket with object lock keeps all of them. The environment has the
// credentials under the names that tools for S3 use: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
// AWS_REGION (default us-east-1), and AWS_ENDPOINT_URL_S3 for a service like S3.
func openS3(u *url.URL) (*Destination, error) {
	b := bucket{
		endpoint: strings.TrimSuffix(os.Getenv("AWS_ENDPOINT_URL_S3"), "/"), region: os.Getenv("AWS_REGION"),
		path: "/" + u.Host + "/" + strings.Trim(u.Path, "/"), signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
		credentials: aws.Credentials{
			AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
		},
	}
	if b.region == "" {
		b.region = "us-east-1"
	}
	if b.endpoint == "" {
		b.endpoint = "https://s3." + b.region + ".amazonaws.com"
	}
	if u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("treeheads: name a bucket as s3://BUCKET/PREFIX")
	}
	if !b.credentials.HasKeys() {
		return nil, errors.New("treeheads: to publish to a bucket, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return &Destination{u.String(), b.put}, nil
}

type bucket struct {
	endpoint, region, path string // path is that of the bucket and the prefix
	credentials            aws.Credentials
	signer                 *v4.Signer
}

func (b *bucket) put(ctx context.Context, shard int, size int64, note string) error {
	address := fmt.Sprintf("%s%s/shard-%d/%016d.note", b.endpoint, strings.TrimSuffix(b.path, "/"), shard, size)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, strings.NewReader(note))
	if err != nil {
		return errors.New("the address is not valid")
	}
	sum := sha256.Sum256([]byte(note))
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("content-type", "text/plain; charset=utf-8")
	req.Header.Set("x-amz-content-sha256", hash)
	// The service accepts a signature only if its time is the real one.
	if err := b.signer.SignHTTP(ctx, b.credentials, req, hash, "s3", b.region, clock.System().Now()); err != nil {
		return err
	}
	return send(req)
}
