import gov.nist.secauto.metaschema.model.common.validation.IValidationFinding;
import gov.nist.secauto.metaschema.model.common.validation.JsonSchemaContentValidator;
import gov.nist.secauto.oscal.lib.OscalBindingContext;
import java.io.InputStream;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Validates plans of action and milestones against NIST's JSON schema and liboscal's constraints. Prints one line for each fault. */
public class ValidatePoam {
  public static void main(String[] files) throws Exception {
    for (String file : files) {
      Path path = Path.of(file);
      try (InputStream schema = OscalBindingContext.class.getResourceAsStream("/schema/json/oscal-poam_schema.json");
          Reader document = Files.newBufferedReader(path)) {
        var json = JsonSchemaContentValidator.toJsonObject(document);
        print("schema", path, new JsonSchemaContentValidator(schema).validate(json, path.toUri()).getFindings());
      }
      print("constraint", path, OscalBindingContext.instance().validateWithConstraints(path).getFindings());
    }
  }

  private static void print(String kind, Path path, List<? extends IValidationFinding> findings) {
    for (IValidationFinding finding : findings) {
      String message = finding.getMessage().toString().replaceAll("\\s+", " ");
      System.out.println(kind + " " + finding.getSeverity() + " " + path.getFileName() + ": " + message);
    }
  }
}
