// Another program that writes to a table of a REST catalog, with Iceberg's own parts.
//
//   java -cp JARS OtherWriter.java URI NAMESPACE TABLE delete POSITION | rewrite | numbers
//
// "delete" deletes a row, at a place, of each file, by deletion vectors that all lie in one file; "rewrite" puts the rows
// that are left into one file; "numbers" writes the rows with their numbers, a line each.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.DVFileWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

public class OtherWriter {
  public static void main(String[] words) throws Exception {
    try (RESTCatalog catalog = new RESTCatalog()) {
      catalog.initialize("rest", Map.of("uri", words[0], "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
      Table table = catalog.loadTable(TableIdentifier.of(words[1], words[2]));
      switch (words[3]) {
        case "delete" -> delete(table, Long.parseLong(words[4]));
        case "rewrite" -> rewrite(table);
        default -> numbers(table);
      }
    }
  }

  private static List<FileScanTask> files(Table table) throws Exception {
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      List<FileScanTask> files = new ArrayList<>();
      tasks.forEach(files::add);
      return files;
    }
  }

  private static void delete(Table table, long position) throws Exception {
    List<FileScanTask> files = files(table);
    BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file.location()));
    OutputFileFactory places = OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build();
    DVFileWriter writer = new BaseDVFileWriter(places, path -> {
      for (FileScanTask file : files) {
        if (file.file().location().equals(path) && !file.deletes().isEmpty()) {
          return loader.loadPositionDeletes(file.deletes(), path);
        }
      }
      return null;
    });
    for (FileScanTask file : files) {
      writer.delete(file.file().location(), position, table.spec(), file.file().partition());
    }
    writer.close();
    RowDelta delta = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId());
    writer.result().deleteFiles().forEach(delta::addDeletes);
    writer.result().rewrittenDeleteFiles().forEach(delta::removeDeletes);
    delta.commit();
  }

  private static void rewrite(Table table) throws Exception {
    DataWriter<org.apache.iceberg.data.Record> writer =
        Parquet.writeData(table.io().newOutputFile(table.location() + "/data/theirs-" + System.nanoTime() + ".parquet"))
            .schema(table.schema()).withSpec(table.spec()).createWriterFunc(GenericParquetWriter::create).build();
    RewriteFiles rewrite = table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId());
    for (FileScanTask file : files(table)) {
      rewrite.deleteFile(file.file());
      file.deletes().forEach(rewrite::deleteFile);
    }
    try (CloseableIterable<org.apache.iceberg.data.Record> rows = IcebergGenerics.read(table).build()) {
      rows.forEach(writer::write);
    }
    writer.close();
    rewrite.addFile(writer.toDataFile()).commit();
  }

  private static void numbers(Table table) throws Exception {
    List<Types.NestedField> columns = new ArrayList<>(table.schema().columns());
    columns.add(MetadataColumns.ROW_ID);
    try (CloseableIterable<org.apache.iceberg.data.Record> rows =
        IcebergGenerics.read(table).project(new Schema(columns)).build()) {
      rows.forEach(row -> System.out.println(row.getField("id") + " " + row.getField("_row_id")));
    }
  }
}
