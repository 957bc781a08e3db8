package org.apache.iceberg;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.iceberg.spark.SuiteRows;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.commons.support.AnnotationSupport;
import org.junit.platform.commons.support.HierarchyTraversalMode;

/**
 * Stands in front of Iceberg's own: the same parameters, with every catalog replaced by the one
 * under test.
 */
public class ParameterizedTestExtension implements TestTemplateInvocationContextProvider {
  @Override
  public boolean supportsTestTemplate(ExtensionContext context) {
    return true;
  }

  @Override
  public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(
      ExtensionContext context) {
    Class<?> type = context.getRequiredTestClass();
    Method provider =
        AnnotationSupport.findAnnotatedMethods(
                type, Parameters.class, HierarchyTraversalMode.BOTTOM_UP)
            .get(0);
    Object made;
    try {
      provider.setAccessible(true);
      made = provider.invoke(null);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    List<Object[]> rows = new ArrayList<>();
    for (Object row : made instanceof Object[] many ? Arrays.asList(many) : (Collection<?>) made) {
      rows.add(row instanceof Object[] several ? several.clone() : new Object[] {row});
    }
    Map<Integer, Field> fields = new LinkedHashMap<>();
    for (Field field :
        AnnotationSupport.findAnnotatedFields(
            type, Parameter.class, f -> true, HierarchyTraversalMode.BOTTOM_UP)) {
      fields.putIfAbsent(field.getAnnotation(Parameter.class).index(), field);
    }
    return SuiteRows.of(rows, fields).stream().map(row -> new Invocation(row, fields));
  }

  private record Invocation(Object[] row, Map<Integer, Field> fields)
      implements TestTemplateInvocationContext {
    @Override
    public String getDisplayName(int index) {
      return SuiteRows.label(row);
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
      if (fields.isEmpty()) {
        return List.of(
            new ParameterResolver() {
              @Override
              public boolean supportsParameter(
                  ParameterContext parameter, ExtensionContext context) {
                return true;
              }

              @Override
              public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
                return row[parameter.getIndex()];
              }
            });
      }
      return List.of(
          (BeforeEachCallback)
              context -> {
                for (int i = 0; i < row.length; i++) {
                  fields.get(i).setAccessible(true);
                  fields.get(i).set(context.getRequiredTestInstance(), row[i]);
                }
              });
    }
  }
}
