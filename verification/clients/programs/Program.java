import client.ApiClient;
import client.ApiException;
import client.api.EvidenceApi;
import client.api.FindingsApi;
import client.auth.ApiKeyAuth;
import client.model.CreateFinding;
import client.model.Problem;
import java.io.File;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Program {
    static void check(String what, Object found, Object wanted) {
        if (!wanted.equals(found)) throw new IllegalStateException(what + ": found " + found + ", wanted " + wanted);
    }

    public static void main(String[] arguments) throws Exception {
        var connection = new ApiClient();
        connection.setBasePath(System.getenv("POSTERN_URL"));
        var credentials = (ApiKeyAuth) connection.getAuthentication("keyAuth");
        credentials.setApiKeyPrefix("ApiKey");
        credentials.setApiKey(System.getenv("POSTERN_KEY"));
        var findings = new FindingsApi(connection);

        var first = findings.listFindings().limit(2).executeWithHttpInfo();
        check("items of the first page", first.getData().size(), 2);
        var link = first.getHeaders().entrySet().stream()
            .filter(header -> header.getKey().equalsIgnoreCase("link"))
            .map(header -> header.getValue().get(0))
            .findFirst()
            .orElse("");
        Matcher next = Pattern.compile("[?&]cursor=([^&>]+)[^>]*>; rel=\"next\"").matcher(link);
        check("a next page", next.find(), true);
        var cursor = URLDecoder.decode(next.group(1), StandardCharsets.UTF_8);
        var second = findings.listFindings().limit(2).cursor(cursor).execute();
        check("items of the second page", second.size(), 2);
        check("the same items", second.equals(first.getData()), false);

        var finding = new CreateFinding();
        finding.setTitle("Made by a generated client");
        finding.setCondition("Seen.");
        finding.setSeverity(CreateFinding.SeverityEnum.LOW);
        var made = findings.createFinding(finding).executeWithHttpInfo();
        check("status of the new finding", made.getStatusCode(), 201);

        byte[] content = new byte[100_000];
        new SecureRandom().nextBytes(content);
        File file = File.createTempFile("postern", ".bin");
        file.deleteOnExit();
        Files.write(file.toPath(), content);
        var sha256 = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        var receipt = new EvidenceApi(connection).uploadEvidence("a.bin", file).execute();
        check("sha256 of the upload", receipt.getSha256(), sha256);

        try {
            findings.getFinding("nothing").execute();
            throw new IllegalStateException("a finding with an unknown id was found");
        } catch (ApiException error) {
            check("status of an unknown id", error.getCode(), 404);
            check("code of the problem", Problem.fromJson(error.getResponseBody()).getCode(), "not_found");
        }
        System.exit(0);
    }
}
