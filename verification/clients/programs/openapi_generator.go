package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	client "postern.example/generated"
)

func check(what string, found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		fmt.Printf("%s: found %v, wanted %v\n", what, found, wanted)
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var next = regexp.MustCompile(`[?&]cursor=([^&>]+)[^>]*>; rel="next"`)

func main() {
	ctx := context.WithValue(context.Background(), client.ContextAPIKeys, map[string]client.APIKey{
		"keyAuth": {Key: os.Getenv("POSTERN_KEY"), Prefix: "ApiKey"},
	})
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Getenv("POSTERN_URL")}}
	api := client.NewAPIClient(configuration)

	first, answer, err := api.FindingsAPI.ListFindings(ctx).Limit(2).Execute()
	must(err)
	check("items of the first page", len(first), 2)
	found := next.FindStringSubmatch(answer.Header.Get("Link"))
	check("parts of the link", len(found), 2)
	cursor, err := url.QueryUnescape(found[1])
	must(err)
	second, _, err := api.FindingsAPI.ListFindings(ctx).Limit(2).Cursor(cursor).Execute()
	must(err)
	check("items of the second page", len(second), 2)

	finding := client.NewCreateFinding("Made by a generated client", "Seen.", "low")
	made, answer, err := api.FindingsAPI.CreateFinding(ctx).CreateFinding(*finding).Execute()
	must(err)
	check("status of the new finding", answer.StatusCode, 201)
	check("id of the new finding", made.GetId() != "", true)

	content := make([]byte, 100_000)
	_, err = rand.Read(content)
	must(err)
	path := filepath.Join(os.TempDir(), fmt.Sprintf("postern-%d.bin", os.Getpid()))
	must(os.WriteFile(path, content, 0o600))
	defer os.Remove(path)
	file, err := os.Open(path)
	must(err)
	sum := sha256.Sum256(content)
	receipt, _, err := api.EvidenceAPI.UploadEvidence(ctx).FileName("a.bin").Body(file).Execute()
	must(err)
	check("sha256 of the upload", receipt.GetSha256(), hex.EncodeToString(sum[:]))

	_, answer, err = api.FindingsAPI.GetFinding(ctx, "nothing").Execute()
	check("status of an unknown id", answer.StatusCode, 404)
	failure, isFailure := err.(*client.GenericOpenAPIError)
	check("an error of the client", isFailure, true)
	problem, isProblem := failure.Model().(client.Problem)
	check("a problem", isProblem, true)
	check("code of the problem", problem.GetCode(), "not_found")
}
